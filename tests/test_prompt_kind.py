"""A prompt's features, counted by hand, and how often its kind is found."""

from __future__ import annotations

import json

import pytest

from specdemo.lab.prompts import TASKS
from specdemo.prompt_kind import features, kind_of


def test_the_features_of_a_prompt() -> None:
    found = features("one two three\n```\none two three 12\n```")
    assert found["code fences"] == 2 and found["words"] == 7
    assert found["repeated runs"] == 2 / 5
    assert 0.05 < found["digits"] < 0.06
    assert features("") == {"code fences": 0, "digits": 0.0, "words": 0, "repeated runs": 0.0}


def test_the_kinds_of_this_projects_prompts_are_found_but_for_one_in_thirty() -> None:
    prompts = [(kind, one["text"]) for kind, ones in json.loads(TASKS.read_text("utf-8")).items() for one in ones]
    assert sum(kind == kind_of(text) for kind, text in prompts) >= len(prompts) * 29 // 30


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "chat"),
        ("Hello there.", "chat"),
        ("What does this do?\n\n```\nx = 1\n```", "code"),
        ("As JSON, please:\n\n```\n{}\n```", "json/sql"),
        ("A train does 80 km in 40 minutes. How many does it do in 2 hours?", "maths"),
        ("What of this?\n\n" + "word " * 100, "summarise"),
        ("What of this?\n\n" + "the story " * 10, "chat"),
        ("请写一个关于小猫的故事。", "story"),
    ],
)
def test_a_kind_is_told_by_what_is_asked_and_not_by_what_is_pasted(text: str, kind: str) -> None:
    assert kind_of(text) == kind
