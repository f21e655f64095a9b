"""The prompts that judge drafts are held out: none is, or nearly is, one that drafts are made from or shown with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from specdemo.distill.patterns import load_kinds, load_words
from specdemo.distill.plan import PatternPlan

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "prompts"
TASKS = json.loads((FOLDER / "tasks.json").read_text("utf-8"))
PROMPTS = {f"{kind}, {entry['name']}": entry["text"] for kind, entries in TASKS.items() for entry in entries}
WORDS = 4  # that follow one another in both texts
NEARLY = 0.15  # of a prompt's runs of words, and it is nearly the other text
ROWS = 3000  # of the plan of synthesis, filled


def runs(text: str) -> set[tuple[str, ...]]:
    """Every run of so many words."""
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(WORDS)), strict=False))


def others() -> Iterator[str]:
    """What drafts are made from, as patterns and as filled prompts, and the prompts that are shown or timed."""
    for kind in load_kinds().values():
        for pattern in kind.patterns:
            yield pattern if isinstance(pattern, str) else "\n".join(pattern)
    for words in load_words().values():
        yield from words
    plan = PatternPlan(seed=0)
    for number in range(ROWS):
        yield "\n".join(message["content"] for message in plan.row(number).messages)
    for name in ("examples.json", "bench.json"):
        yield from re.findall(r'"(?:prompt|text)": "(.*)"', (FOLDER / name).read_text("utf-8"))


@cache
def runs_of_others() -> list[set[tuple[str, ...]]]:
    return [found for found in map(runs, others()) if found]


@pytest.mark.parametrize("name", PROMPTS)
def test_no_prompt_is_nearly_another(name: str) -> None:
    mine = runs(PROMPTS[name])
    assert max(len(mine & theirs) / len(mine) for theirs in runs_of_others()) < NEARLY


def test_a_copy_would_be_found() -> None:
    rows = map(PatternPlan(seed=0).row, range(99))
    asked = next(text for row in rows for text in (m["content"] for m in row.messages) if len(text.split()) > 20)
    copied = runs(f"Well then: {asked}")
    assert max(len(copied & theirs) / len(copied) for theirs in runs_of_others()) > 0.5


def test_there_are_six_kinds_of_at_least_four_each() -> None:
    assert list(TASKS) == ["chat", "code", "json/sql", "summarise", "maths", "story"]
    assert all(len(entries) >= 4 for entries in TASKS.values())
    assert len(set(PROMPTS.values())) == len(PROMPTS) == sum(map(len, TASKS.values()))
