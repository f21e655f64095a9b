"""Speedup against length where it is known when acceptance or cost changes."""

from __future__ import annotations

import pytest

from specdemo.lab.length import LENGTH, LengthOptions
from specdemo.lab.pooled import pooled
from specdemo.lab.prompt_files import PromptSet
from tests.lab.rows import rows_of
from tests.lab.worlds import World, at_its_own_time, first, follows
from tests.threads import one_thread  # noqa: F401


def test_it_grows_where_more_drafts_are_right_later(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_its_own_time(World(lambda i, at: i < (1 if at < 100 else 3), c=0.1), monkeypatch)
    rows = rows_of(LENGTH, world, LengthOptions(prompts=prompts, checkpoints=(100, 20, 200, 300)))
    assert [(row["from"], row["to"]) for row in rows[:4]] == [(1, 20), (20, 100), (100, 200), (200, 300)]
    early, late = (pooled([row for row in rows if row["from"] == low]) for low in (20, 100))
    assert (early["E"], late["E"]) == (2, pytest.approx(4, abs=0.1))
    assert early["speedup"] == pytest.approx(2 / 1.4) and late["speedup"] == pytest.approx(4 / 1.4, abs=0.1)
    grows, why = LENGTH.findings(rows)
    assert grows.startswith("Past 100 tokens it grows: 2.8") and "on the 3 prompts that go on" in grows
    assert why.startswith("What moved the speedup most comes first: tokens a pass went from 2.0")
    lines = LENGTH.table(rows)
    assert [line["tokens"] for line in lines] == ["20", "100", "200", "300"] and lines[3]["prompts"] == "3"
    until, plain = float(lines[3]["speedup until then"].split()[0]), 299
    assert until == pytest.approx(plain / (1.4 * (99 / 2 + 200 / 4)), abs=0.03), "all of it, until then"


def test_it_shrinks_where_verification_grows_dear(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_its_own_time(World(first(2), c=0.0), monkeypatch)
    world.v = lambda k: 2.0 if k and world.target_twin.length > 110 else 1.0
    rows = rows_of(LENGTH, world, LengthOptions(prompts=prompts, checkpoints=(100, 200)))
    shrinks, why = LENGTH.findings(rows)
    assert shrinks.startswith("Past 100 tokens it shrinks: 1.5")
    assert "comes first: a pass went from 1.0" in why and "(v 1.0" in why


def test_answers_that_end_sooner_are_left_out_and_said(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_its_own_time(World(first(2)), monkeypatch)
    world.eos_ids = frozenset({follows(world.tokenizer.encode("x")[-1])})  # the first token already
    rows = rows_of(LENGTH, world, LengthOptions(prompts=prompts, kinds=("code",), checkpoints=(16, 128)))
    assert [row["reached"] for row in rows] == [False, False]
    assert LENGTH.findings(rows) == [
        "Nothing can be said of more than 100 tokens: no answer reached a checkpoint after one at 100."
    ]
    assert LENGTH.table(rows) == [{"tokens": "16", "prompts": "0"}, {"tokens": "128", "prompts": "0"}]
    assert LENGTH.findings([]) == LENGTH.table([]) == []
