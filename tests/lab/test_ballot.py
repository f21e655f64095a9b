"""A blind vote: placed by chance, kept with the rows, counted exactly; in the terminal, too."""

from __future__ import annotations

import csv
import io
from itertools import cycle
from pathlib import Path

import pytest

from specdemo import cli
from specdemo.lab.ballot import VOTE, Ballot, Choice, Tally, differs, tally
from specdemo.lab.experiment import Row
from specdemo.lab.result import read
from specdemo.lab.voting import hold
from tests.lab.fixed import Fixed
from tests.lab.worlds import World, first
from tests.threads import one_thread  # noqa: F401


def row(n: int, drafted: str = "two", **more: str) -> Row:
    return {"kind": "chat", "prompt": str(n), "repeat": 1, "plain text": "one", "drafted text": drafted, **more}


def ballot(rows: list[Row], *heads: bool) -> Ballot:
    coins = cycle(heads or (True,))
    return Ballot(rows, {("chat", "1"): "why?"}, lambda: next(coins))


def test_only_pairs_that_differ_and_have_no_vote_are_shown() -> None:
    rows = [row(1), row(2, " one\n"), row(3, vote="plain"), row(4)]
    assert [differs(one) for one in rows] == [True, False, True, True]
    open_ones = ballot(rows)
    assert len(open_ones) == 2 and (open_ones.sheet.prompt, open_ones.sheet.question) == ("1", "why?")
    assert len(ballot([row(1, "one")])) == 0 and ballot([row(1, "one")]).sheet is None


def test_a_vote_stands_in_the_row_of_the_lane_that_stood_there() -> None:
    rows = [row(n) for n in range(1, 6)]
    held = ballot(rows, True, False)
    seen = []
    for choice in (Choice.LEFT, Choice.LEFT, Choice.RIGHT, Choice.SKIP, Choice.NEITHER):
        seen.append((held.sheet.left, held.sheet.right))
        held.cast(choice)
    assert seen == [("one", "two"), ("two", "one")] * 2 + [("one", "two")]
    assert [one.get(VOTE) for one in rows] == ["plain", "drafted", "drafted", None, "neither"]
    assert [(one.prompt, one.left, one.choice) for one in held.reveal()] == [
        ("1", "plain", "left"),
        ("2", "drafted", "left"),
        ("3", "plain", "right"),
        ("5", "plain", "neither"),
    ]
    assert len(ballot(rows)) == 1, "what was passed over is open"


def test_the_coin_is_fair_and_nobody_can_foresee_it() -> None:
    rows = [row(n) for n in range(400)]
    left = [pair[1] for pair in Ballot(rows, {})._pairs]
    assert 140 < sum(left) < 260, "five standard deviations and more"
    assert left != [pair[1] for pair in Ballot(rows, {})._pairs]


@pytest.mark.parametrize(
    ("plain", "drafted", "p"),
    [(0, 0, 1), (1, 0, 1), (3, 3, 1), (5, 0, 2 / 32), (6, 0, 2 / 64), (1, 9, 22 / 1024), (4, 2, 44 / 64)],
)
def test_the_sign_test_is_exact(plain: int, drafted: int, p: float) -> None:
    assert Tally(plain, drafted, 7).p == pytest.approx(p) == Tally(drafted, plain, 0).p


def test_votes_are_counted_from_rows_and_a_strange_one_is_none() -> None:
    rows = [row(1, vote="plain"), row(2, vote="drafted"), row(3, vote="drafted"), row(4, vote="neither"), row(5)]
    assert tally(rows) == Tally(1, 2, 1) and tally([row(1)]) is None
    assert str(tally(rows)).startswith("Blind vote: 1 for plain, 2 for drafted, 1 without a preference;")
    assert "Fewer than 6" in str(tally(rows)) and "Fewer" not in str(Tally(3, 3, 0))
    with pytest.raises(ValueError, match="both"):
        tally([row(1, vote="both")])


# --- In a terminal ----------------------------------------------------------------------------------------------------


def typed(monkeypatch: pytest.MonkeyPatch, *letters: str) -> None:
    """What a person types, and then nothing more."""
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{letter}\n" for letter in letters)))


def test_nothing_tells_the_sides_before_the_reveal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    typed(monkeypatch, "L", "x", "s", "q")
    rows = [row(1), row(2), row(3, "a\x1b[2J")]
    hold(ballot(rows, False), alike=2)
    blind, revealed = capsys.readouterr().out.split("left was")
    assert "plain" not in blind and "drafted" not in blind and "\x1b" not in blind
    assert "2 of the pairs have the same text" in blind and "is none of these letters" in blind
    assert revealed == " drafted, right plain; your vote: left.\n\n"
    assert [one.get(VOTE) for one in rows] == ["drafted", None, None]


def test_votes_are_kept_in_every_file_of_the_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pair = Fixed()
    pair.facts = {"target": "fixed"}
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda spec, progress: pair)
    files = {form: tmp_path / f"result.{form}" for form in ("json", "csv", "markdown")}
    asked = ["lab", "quality", "--kinds", "chat,code", "--per-kind", "1", "--max-new-tokens", "8", "--temperature", "1"]
    asked += [part for form, file in files.items() for part in (f"--{form}", str(file))]
    typed(monkeypatch, "n")
    assert cli.main([*asked, "--vote"]) == 0
    out = capsys.readouterr().out
    assert "— Pair 1 of 2 —" in out and "The vote ends here" in out
    result = read(files["json"])
    assert [one.get(VOTE) for one in result.rows] == ["neither", None]
    assert result.findings[-1].startswith("Blind vote: 0 for plain, 0 for drafted, 1 without")
    assert result.findings[-1] in files["markdown"].read_text("utf-8") and result.findings[-1] in out
    assert [one[VOTE] for one in csv.DictReader(files["csv"].open(encoding="utf-8"))] == ["neither", ""]
    typed(monkeypatch, "r")
    assert cli.main([*asked, "--vote"]) == 0
    assert "— Pair 1 of 1 —" in capsys.readouterr().out and tally(read(files["json"]).rows).preferring == 1


def test_where_all_is_the_same_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda spec, progress: World(first(2)))
    typed(monkeypatch)
    assert cli.main(["lab", "quality", "--kinds", "chat", "--per-kind", "2", "--max-new-tokens", "8", "--vote"]) == 0
    out = capsys.readouterr().out
    assert "2 of the pairs have the same text on both sides" in out and "no pair left to vote on" in out
