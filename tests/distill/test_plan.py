"""Kinds take turns, rows are the same in every run, and own prompts come in each temperature."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from specdemo.distill.patterns import load_kinds
from specdemo.distill.plan import INVENTED, INVENTED_WEIGHT, TEMPERATURES, OwnPrompts, PatternPlan


def test_every_kind_is_present_in_its_share_from_the_beginning():
    weights = {name: kind.weight for name, kind in load_kinds().items()} | {INVENTED: INVENTED_WEIGHT}
    counts = Counter(PatternPlan(0).row(n).kind for n in range(sum(weights.values())))
    assert counts == weights


def test_a_row_is_the_same_in_every_run_and_another_for_another_seed():
    first, again, other = PatternPlan(0), PatternPlan(0), PatternPlan(1)
    assert [first.row(n) for n in range(40)] == [again.row(n) for n in reversed(range(40))][::-1]
    assert [first.row(n) for n in range(40)] != [other.row(n) for n in range(40)]


def test_every_temperature_is_met_greedy_most_often():
    counts = Counter(PatternPlan(0).row(n).temperature for n in range(600))
    assert set(counts) == {0.0, 0.3, 0.7, 1.0} == set(TEMPERATURES)
    assert counts.most_common(1)[0][0] == 0.0


def test_prompts_end_with_a_user_s_turn_and_roles_take_turns():
    plan = PatternPlan(3)
    for planned in (plan.row(n) for n in range(400)):
        assert (planned.opening is None) == bool(planned.messages)
        roles = [m["role"] for m in planned.messages if m["role"] != "system"]
        assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))] and len(roles) % 2 == bool(roles)
        assert all(m["content"] for m in planned.messages)


def test_a_finished_conversation_is_gone_on_with():
    plan = PatternPlan(0)
    story = next(p for p in (plan.row(n) for n in range(500)) if p.kind == "story" and len(p.messages) == 1)
    plan.learn(story, "Once upon a time there was a lighthouse.")
    gone_on = [p.messages for p in (plan.row(n) for n in range(900)) if p.kind == "turns"]
    mine = [m for m in gone_on if m[:1] == story.messages]
    assert len(mine) > len(gone_on) / 2
    assert all(m[1]["content"].endswith("lighthouse.") and m[2]["role"] == "user" for m in mine)


def test_a_conversation_does_not_grow_without_end():
    plan = PatternPlan(0)
    row = next(p for p in (plan.row(n) for n in range(500)) if p.kind == "chat")
    for _ in range(9):
        plan.learn(row, "yes")
        longer = next(p for p in (plan.row(n) for n in range(2000)) if p.kind == "turns")
        row = replace(row, messages=longer.messages)
    assert len(row.messages) <= 7


def test_own_prompts_are_asked_at_every_temperature(tmp_path):
    path = tmp_path / "own.jsonl"
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "b"}]
    path.write_text(json.dumps({"prompt": "a"}) + "\n\n" + json.dumps({"messages": chat, "kind": "mine"}) + "\n")
    rows = [OwnPrompts(path).row(n) for n in range(9)]
    assert [(r.kind, r.temperature) for r in rows[:8]] == [
        (kind, t) for t in (0.0, 0.3, 0.7, 1.0) for kind in ("own", "mine")
    ]
    assert rows[1].messages == chat and rows[8] is None


@pytest.mark.parametrize("line", ["hello", '{"text": "a"}', "[1]", '{"messages": [{"role": "user"}]}'])
def test_a_line_that_is_no_prompt_is_named(tmp_path, line):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"prompt": "a"}) + "\n" + line)
    with pytest.raises(ValueError, match=r"Line 2 of own\.jsonl"):
        OwnPrompts(path)
