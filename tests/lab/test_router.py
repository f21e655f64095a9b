"""The router where the right route is known, and where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdemo import cli
from specdemo.lab.experiment import LabRefused, Row
from specdemo.lab.pooled import pooled, speedup_of
from specdemo.lab.prompt_files import read_set
from specdemo.lab.result import read
from specdemo.lab.router import ROUTER, Route, RouterOptions, learned
from specdemo.prompt_kind import features
from tests.lab.rows import made, rows_of
from tests.lab.worlds import World, at_its_own_time
from tests.threads import one_thread  # noqa: F401


def write(path: Path, *prompts: str) -> str:
    path.write_text("\n".join(f'{{"prompt": "{text}"}}' for text in prompts), "utf-8")
    return str(path)


SHORT = ("one two", "a few words", "three more")
LONG = ("a b c d e f g h i j k", "l m n o p q r s t u v w", "x y z a b c d e f g h")


def test_it_learns_the_route_elsewhere_and_wins_where_each_drafter_has_its_own_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = at_its_own_time(World(c=0.05), monkeypatch)
    world.drafters = {
        "brief": lambda i, at: world.prompt_length < 18,
        "thorough": lambda i, at: world.prompt_length > 18,
    }
    options = RouterOptions(
        prompts=read_set(write(tmp_path / "test.jsonl", *(f"{text} z" for text in SHORT + LONG))),
        learn_from=read_set(write(tmp_path / "learn.jsonl", *SHORT, *LONG)),
        drafters=("brief", "thorough"),
        max_new_tokens=41,
    )
    rows = rows_of(ROUTER, world, options)
    learnt, won = ROUTER.findings(rows)
    assert learnt == "Learned from 6 other prompts: thorough where words is over 7, else brief."
    # five tokens a pass of 1.2 where it fits, one where it does not
    assert won.startswith("The router wins: 4.17× against 1.40×") and "outcome would reach 4.17×" in won
    lines = ROUTER.table(rows)
    assert [line["drafter"] for line in lines] == ["brief", "thorough", "routed", "the best of each prompt"]
    assert lines[2]["speedup, test prompts"].startswith("4.17")


def rows(speeds: dict[str, tuple[float, ...]], looks: tuple[str, ...] = ("chat",)) -> list[Row]:
    """speeds: of each drafter, on prompts of one word, two, three ..., learned from and tested alike.

    looks: the kinds that they look like, in turn.
    """
    return [
        made(
            {
                "part": part,
                "kind": "any",
                "prompt": str(n),
                "drafter": drafter,
                "γ": 4,
                "looks like": looks[n % len(looks)],
            }
            | features("word " * (n + 1)),
            tokens=100,
            passes=50,
            verify_s=100 / speed,
        )
        for part in ("learning", "test")
        for drafter, each in speeds.items()
        for n, speed in enumerate(each)
    ]


def test_where_one_drafter_is_best_everywhere_it_takes_that_and_does_not_win() -> None:
    found = rows({"a": (1.5, 1.4, 1.6), "b": (1.1, 1.2, 1.1)})
    assert learned(found) == Route("a")
    learnt, said = ROUTER.findings(found)
    assert learnt.endswith("a for every prompt.") and said.startswith("It takes a for all of the test prompts")
    assert ROUTER.findings([]) == ROUTER.table([]) == []


def test_it_goes_by_the_kind_that_a_prompt_looks_like_where_that_tells_them_apart() -> None:
    found = rows({"a": (2.0, 1.0) * 3, "b": (1.0, 2.0) * 3}, looks=("code", "story"))
    route = learned(found)
    assert route == Route("a", by_kind=(("code", "a"), ("story", "b")))
    assert str(route) == "a for code; b for story; a for what looks like anything else"
    assert route.of({"looks like": "maths"}) == "a"
    said = ROUTER.findings(found)[-1]
    assert said.startswith("The router wins: 2.00× against 1.33×")


def test_what_fits_only_what_it_has_seen_is_not_learned() -> None:
    found = rows({"a": (1.5, 1.4, 1.6, 1.5), "b": (1.1, 1.9, 1.1, 1.2)}, looks=("chat", "code", "story", "maths"))
    assert learned(found) == Route("a"), "one prompt of a kind says nothing of another one"


def test_the_speedup_that_it_goes_by_is_the_pooled_one() -> None:
    found = rows({"a": (1.5, 1.4, 1.6), "b": (1.1, 1.9, 1.1)})
    assert speedup_of(found) == pytest.approx(pooled(found)["speedup"])
    assert speedup_of([]) == 0.0


def test_a_route_that_was_luck_does_not_win() -> None:
    found = rows({"a": (1.0, 1.0, 2.0, 2.0), "b": (1.5, 1.5, 1.0, 1.0)})
    lucky = [row for row in found if row["part"] == "learning"]
    turned = [row | {"words": 5 - row["words"]} for row in found if row["part"] == "test"]
    learnt, said = ROUTER.findings(lucky + turned)
    assert "a where words is over 2.5, else b" in learnt
    assert said.startswith("The router does not win: 1.00× against ")


def test_what_is_tested_on_is_not_learned_from(tmp_path: Path) -> None:
    both = read_set(write(tmp_path / "both.jsonl", "hello"))
    with pytest.raises(LabRefused, match="both learned from and tested on: 'hello'"):
        ROUTER.cells(RouterOptions(prompts=both, learn_from=both, drafters=("a", "b")))
    with pytest.raises(LabRefused, match="at least two drafters"):
        ROUTER.cells(RouterOptions(drafters=("a",)))
    cells = ROUTER.cells(RouterOptions(drafters=("a", "b")))
    assert {cell["part"] for cell in cells} == {"learning", "test"} and len(cells) > 60


def test_drafters_are_loaded_over_one_target(tiny_target: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """From the command to the result with real models: a draft that is the target itself is always right."""
    target, file = str(tiny_target), tmp_path / "router.json"
    options = ["--target", target, "--target-precision", "fp32", "--device", "cpu", "--drafters", f"ngram,{target}"]
    options += ["--prompts", write(tmp_path / "test.jsonl", "abcabc"), "--max-new-tokens", "11", "--json", str(file)]
    assert cli.main(["lab", "router", *options, "--learn-from", write(tmp_path / "learn.jsonl", "xyz")]) == 0
    result = read(file)
    itself = pooled([row for row in result.rows if row["drafter"] == target])
    assert result.done and itself["acceptance"] == 1 and itself["E"] == 5
    assert {row["texts"] for row in result.rows} <= {"identical", "bit-identical"}
    assert f"| {target} " in capsys.readouterr().out
