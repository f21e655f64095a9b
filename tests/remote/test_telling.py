"""What has to be said of a race over servers is one list; terminal and page word all of it, in its order."""

from __future__ import annotations

import pytest

from specdemo.decoding.steps import UNTOLD, Origin, Step, Stop, Token
from specdemo.race import Lane, Mode, Request
from specdemo.recording import HERE, Known, RaceRecord, Wrote
from specdemo.remote import report, telling
from specdemo.remote.facts import ARRIVALS, NO_IDS, RETOKENISED, SERVER, Provenance
from specdemo.ui import remote_says
from specdemo.ui.text import LANGUAGES, tell

ONE = {"baseline server": "one:1", "speculative server": "two:2", "clock": ARRIVALS}
SHARED = dict(zip(("drafts", "drafted", "accepted", "others"), ("10", "40", "9", "3"), strict=True))
MANY = {
    "clock": SERVER,
    "baseline provenance": Provenance.PLAIN,
    "speculative provenance": Provenance.UNKNOWN,
    "speculative settings": '{"a": 1}',
    "speculative token ids": RETOKENISED,
    "speculative dropped": "the chat template, seed",
    "speculative server accepted at": "6, 3, 0, 0",
    **{f"speculative server {name}": n for name, n in SHARED.items()},
}


def record(lengths: tuple[int, ...] = (1, 2), stop: Stop = Stop.EOS, token: int = 7, **pair: str) -> RaceRecord:
    found = RaceRecord("Hi", Request((1,), mode=Mode.RACED), Known(pair=ONE | pair))
    for lane in Lane:
        for n in lengths:
            tokens = (Token(token, Origin.UNKNOWN),) * n
            found.add(Wrote(lane, Step(tokens, draft_seconds=0, verify_seconds=n, other_seconds=0), ("a",) * n))
        found.lanes[lane].metrics.stop = stop
    return found


def test_every_fact_is_worded_for_the_terminal_and_in_each_language() -> None:
    found = record(**MANY)
    names = [name for name, _ in telling.notes(found)]
    assert names[:4] == ["clock.server", "gathered", "settings.note", "unknown"]
    assert names[4:] == ["shared", "retokenised", "untemplated", "dropped"]
    assert len(report.notes(found)) == len(names)
    assert [key for key, _ in remote_says.more(found)] == [f"remote.{name}" for name in names]
    for language in LANGUAGES:
        said = " ".join(tell(language, one) for one in remote_says.more(found))
        assert all(value in said for value in ("40", "22", "1.90", "60, 30, 0, 0", "seed", '{"a": 1}'))
    (shared,) = (line for line in report.notes(found) if "shared" in line)
    assert shared.startswith("Speculative (two:2): shared-server figures, of all its requests meanwhile (3 others")
    assert shared.endswith("40 drafted, 22% accepted, mean acceptance length 1.90, by position 60%, 30%, 0%, 0%.")


def test_whatever_the_terminal_can_say_the_page_can() -> None:
    values = dict.fromkeys(("tokens", "needed", "step", "speedup", "length", "share"), 1.5)
    values |= {"lane": Lane.SPECULATIVE, "here": Lane.BASELINE, "server": "two:2", "at": [0.5], "n": 2}
    values |= {"drafted": 3, "others": 4, "what": "seed", "settings": "{}"}
    for name in report.WORDS:
        assert "{" not in report._worded((name, values | {"settings": "none"}))
        assert len({tell(language, remote_says._worded((name, values))) for language in LANGUAGES}) == 3, name


@pytest.mark.parametrize(
    ("made", "verdict", "noted"),
    [
        ({"lengths": ()}, "broken", []),
        ({"stop": Stop.FAULT}, "broken", []),
        ({"lengths": (1, 1), "token": UNTOLD, "speculative token ids": NO_IDS}, "broken", ["textonly"]),
        ({}, "equal", []),
        ({HERE: "baseline"}, "mixed", []),
        ({"speculative server": "one:1"}, "equal", ["one.raced"]),
        ({"baseline server drafts": "4"}, "equal", ["baseline"]),
        ({"speculative provenance": Provenance.PLAIN}, "equal", ["plain", "gathered"]),
    ],
)
def test_what_is_said_follows_from_the_record(made: dict, verdict: str, noted: list[str]) -> None:
    found = record(**made)
    assert telling.verdict(found, found.comparison, over=True)[0] == verdict
    assert [name for name, _ in telling.notes(found)] == ["clock.arrivals", *noted]


@pytest.mark.parametrize("count", ["-1", "lots", "9" * 5000, "1.5", ""])
def test_a_files_made_up_counts_are_not_told(count: str) -> None:
    pair = {f"speculative server {name}": n for name, n in SHARED.items()}
    assert "shared" in [name for name, _ in telling.notes(record(**pair))]
    assert "shared" not in [name for name, _ in telling.notes(record(**pair | {"speculative server drafts": count}))]
    made_up = record(**pair | {"speculative server accepted at": f"6, {count}"})
    assert report.notes(made_up) and remote_says.more(made_up)


@pytest.mark.parametrize(("pair", "first_difference"), [({}, 0), ({"speculative token ids": RETOKENISED}, None)])
def test_a_text_that_a_tokenizer_cut_anew_is_the_same_text(pair: dict[str, str], first_difference: int | None) -> None:
    found = RaceRecord("Hi", Request((1,)), Known(pair=ONE | pair))
    for lane, words in ((Lane.BASELINE, ("un", "known")), (Lane.SPECULATIVE, ("unknown",))):
        for number, word in enumerate(words, start=10 * len(words)):
            step = Step((Token(number, Origin.UNKNOWN),), draft_seconds=0, verify_seconds=1, other_seconds=0)
            found.add(Wrote(lane, step, (word,)))
    assert found.comparison.first_difference == first_difference
