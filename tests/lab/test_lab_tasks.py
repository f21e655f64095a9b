"""The tasks on a world whose figures are known, and what is made of rows."""

from __future__ import annotations

import pytest

from specdemo.decoding.steps import DraftLength
from specdemo.lab.experiment import Row
from specdemo.lab.pooled import interval_of, pooled
from specdemo.lab.prompt_files import PromptSet
from specdemo.lab.tasks import TASKS, TaskOptions
from specdemo.race import RequestRefused
from tests.lab.rows import made, rows_of
from tests.lab.worlds import World, at_its_own_time, first
from tests.threads import one_thread  # noqa: F401

PASSES = 10


def test_every_figure_is_what_the_costs_and_hits_make_it(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_its_own_time(World(first(2), v=lambda k: 1 + 0.05 * k, c=0.1), monkeypatch)
    rows = rows_of(TASKS, world, TaskOptions(prompts=prompts, gammas=(4, 0), max_new_tokens=1 + 3 * PASSES))
    found = pooled([row for row in rows if row["γ"] == 4 and row["kind"] == "chat"])
    # three tokens a pass; the last pass may draft two only, since three tokens are left
    seconds = (PASSES - 1) * (1 + 0.2 + 0.4) + (1 + 0.1 + 0.2)
    drafted = 4 * (PASSES - 1) + 2
    assert found["E"] == found["mean acceptance length"] == 3
    assert found["acceptance"] == pytest.approx(2 * PASSES / drafted)
    assert found["first draft"] == 1
    assert found["c"] == pytest.approx(0.1)
    assert found["v"] == pytest.approx((1.2 * (PASSES - 1) + 1.1) / PASSES)
    assert found["speedup"] == pytest.approx(3 * PASSES / seconds)
    assert found["end-to-end speedup"] == pytest.approx((3 * PASSES + 1) / (seconds + 1))
    none = pooled([row for row in rows if row["γ"] == 0])
    assert none["speedup"] == pytest.approx(1) and none["acceptance"] is None and none["c"] is None
    assert {row["texts"] for row in rows} == {"bit-identical"}


def test_a_padded_plain_step_is_taken_for_the_unpadded_one(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_its_own_time(World(first(4), c=0.0, padding=1.25), monkeypatch)
    rows = rows_of(TASKS, world, TaskOptions(prompts=prompts, gammas=(4,), max_new_tokens=51))
    assert pooled(rows)["speedup"] == pytest.approx(5 / 1.25) and pooled(rows)["v"] == pytest.approx(1.25)


def test_it_stops_within_a_step_and_refuses_before_it_measures(prompts: PromptSet) -> None:
    world, options = World(), TaskOptions(prompts=prompts)
    running = TASKS.run(world, options, TASKS.cells(options))
    for _ in range(5):
        next(running)
    before = world.steps
    running.close()
    assert world.steps == before == 5
    narrow = World(context=2)
    with pytest.raises(RequestRefused, match="shorten the prompt"):
        next(TASKS.run(narrow, options, TASKS.cells(options)))
    assert not narrow.steps


def test_a_policy_that_moves_its_length_runs_once_with_the_longest_at_most(prompts: PromptSet) -> None:
    policies = (DraftLength.FIXED, DraftLength.MARGINAL_GAIN)
    options = TaskOptions(prompts=prompts, gammas=(8, 2), policies=policies)
    settings = [(one["γ"], one["policy"]) for one in options.settings()]
    assert settings == [(8, "fixed"), (2, "fixed"), (8, "marginal gain")]
    assert len(TASKS.cells(options)) == len(settings) * len(options.read())
    assert [one["γ"] for one in TaskOptions(gammas=(3, 5), policies=policies[1:]).settings()] == [5]


def of(kind: str, n: int, gamma: int, tokens: int, passes: int, seconds: float) -> Row:
    """A row beside a plain lane of a token a second."""
    cell = {"kind": kind, "prompt": str(n), "repeat": 1, "γ": gamma, "policy": "fixed"}
    return made(cell, tokens=tokens, passes=passes, verify_s=seconds)


def test_an_interval_holds_what_prompts_differ_by_and_nothing_else() -> None:
    alike = [of("chat", n, 4, 200, 100, 100.0) for n in range(6)]
    assert interval_of(alike, "speedup") == pytest.approx((2, 2))
    mixed = alike[:3] + [of("chat", n, 4, 100, 100, 100.0) for n in range(3, 6)]
    low, high = interval_of(mixed, "speedup")
    assert low < 1.2 and high > 1.8 and pooled(mixed)["speedup"] == pytest.approx(1.5)
    assert interval_of(alike[:1], "speedup") is None
    again = interval_of(mixed, "speedup")
    assert again == (low, high), "the same draws every time"


def test_it_says_where_it_pays_and_where_that_cannot_be_told() -> None:
    rows = [of("chat", n, 4, 200, 100, 100.0) for n in range(4)]
    rows += [of("code", n, 4, 100, 100, 100.0 + 80 * (n - 1.5)) for n in range(4)]
    rows += [of(kind, n, 6, 50, 100, 100.0) for kind in ("chat", "code") for n in range(4)]
    said = TASKS.findings(rows)
    assert said[0].startswith("chat: γ 4 does best, 2.00×") and said[0].endswith("it pays.")
    assert said[1].startswith("code: γ 4 does best, 1.00×") and "cannot be told" in said[1]
    assert said[2].startswith("One setting for all kinds: γ 4")
    rows[0]["texts"] = "fault"
    assert TASKS.findings(rows)[-1] == "FAULT: chat, prompt 0, γ 4: the texts part too far."
    lines = TASKS.table(rows)
    assert [(line["kind"], line["γ"]) for line in lines][-2:] == [("all", "4"), ("all", "6")]
    assert lines[0]["speedup"] == "2.00 (2.00 to 2.00)" and lines[0]["v"] == "1.00 (1.00 to 1.00)"
    assert lines[0]["acceptance"] == "–" and lines[0]["prompts"] == "4"
    assert TASKS.findings([]) == TASKS.table([]) == []


def test_it_holds_a_policy_against_the_best_fixed_length_of_each_kind_and_of_all() -> None:
    tokens = {("chat", 2): 200, ("chat", 4): 150, ("code", 2): 100, ("code", 4): 200}
    rows = [of(kind, 0, gamma, wrote, 100, 100.0) for (kind, gamma), wrote in tokens.items()]
    rows += [of(kind, 0, 8, n, 100, 100.0) | {"policy": "cost optimal"} for kind, n in (("chat", 190), ("code", 210))]
    said = [one for one in TASKS.findings(rows) if "over the best fixed γ" in one]
    assert said == [
        "γ 8 (cost optimal) over the best fixed γ of each kind: -5.0% (chat) to +5.0% (code); over the best "
        "single one, on all prompts, +14.3%, where one who knew the best γ of each kind would gain +14.3%."
    ]
    assert not [one for one in TASKS.findings(rows[:4]) if "over the best fixed γ" in one]
