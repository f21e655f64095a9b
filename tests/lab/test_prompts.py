"""Prompts by kind, from every form of file; what is wrong with a file is said with its line and key."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from specdemo.lab.experiment import LabRefused
from specdemo.lab.prompt_files import PromptSet, TaskPrompt, read_prompts, read_set
from specdemo.lab.prompts import TASKS, chosen

QUESTIONS = """\
{"question_id": 81, "category": "writing", "turns": ["Compose a blog post.", "Rewrite it."], "reference": []}

{"question_id": 111, "category": "math", "turns": ["What is 2 + 2?"]}
"""


def test_this_projects_own_prompts_have_six_kinds() -> None:
    prompts = read_prompts(TASKS)
    assert len({prompt.kind for prompt in prompts}) == 6
    assert [prompt.name for prompt in prompts if prompt.kind == "chat"][:3] == ["1", "2", "3"]
    some = chosen(prompts, ("code", "chat"), per_kind=2)
    assert [(prompt.kind, prompt.name) for prompt in some] == [(kind, n) for kind in ("code", "chat") for n in "12"]


def test_question_files_of_benchmarks_load_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "question.jsonl"
    file.write_text(QUESTIONS, "utf-8")
    assert read_prompts(file) == [
        TaskPrompt("writing", "81", "Compose a blog post."),
        TaskPrompt("math", "111", "What is 2 + 2?"),
    ]


def test_a_line_of_ones_own_may_name_its_kind(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"prompt": "one"}\n{"kind": "b", "prompt": "two"}\n{"prompt": "three"}', "utf-8")
    assert [(p.kind, p.name, p.text) for p in read_prompts(file)] == [
        ("any", "1", "one"),
        ("b", "1", "two"),
        ("any", "2", "three"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"prompt": "x"}\n{"kind": "b"}', "line 2: the key `prompt` is missing"),
        ("a.jsonl", '{"prompt": " "}', "line 1: `prompt` should be a text that is not empty"),
        ("a.jsonl", '{"prompt": "x", "kind": 3}', "line 1: `kind` should be a name"),
        ("a.jsonl", "\n[1]", "line 2: an object with the key `prompt`"),
        ("a.jsonl", '{"prompt": "x"}\n{', "line 2: this is not JSON"),
        ("a.jsonl", "[" * 100_000, "line 1: this is not JSON"),
        ("a.jsonl", '{"prompt": "\\ud83d"}', "line 1: a .u in it names half of a character"),
        ("a.jsonl", '{"turns": ["x"], "question_id": 1}\n' * 2, "two prompts of the kind 'any' are called '1'"),
        ("a.jsonl", '{"question_id": 1, "category": "c"}', "line 1: `turns` should be a list"),
        ("a.jsonl", '{"question_id": 1, "category": "c", "turns": [""]}', r"line 1: `turns\[0\]` should be a text"),
        ("a.jsonl", "\n", "it is empty"),
        ("a.json", "[]", "It should be JSON"),
        ("a.json", '{"chat": []}', "no prompts of the kind 'chat'"),
        ("a.json", '{"chat": [{"text": 1}]}', "'chat', number 1: `text` should be a text"),
        ("a.json", "x", "it is not JSON"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    with pytest.raises(LabRefused, match=said):
        read_prompts(file)


def test_a_line_ends_where_json_lets_it_end(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes('\ufeff{"prompt": "a\u2028b"}\r\n{"prompt": "c"}\r\n'.encode())
    assert [prompt.text for prompt in read_prompts(file)] == ["a\u2028b", "c"]


def test_a_set_stands_in_a_result_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(QUESTIONS, "utf-8")
    mine = read_set(str(file))
    kept = json.loads(json.dumps(asdict(mine)))
    assert PromptSet.of(kept) == mine and PromptSet.of(kept).key == mine.key and mine.name == "mine.jsonl"
    other = {"prompts": [kept["prompts"][0] | {"text": "else"}]}
    assert PromptSet.of(kept | other).key != mine.key
    for wrong in (
        None,
        "/etc/passwd",
        [],
        {"name": "x"},
        {"name": 1, "prompts": kept["prompts"]},
        kept | {"prompts": []},
    ):
        with pytest.raises(LabRefused, match="not as a result keeps them"):
            PromptSet.of(wrong)
    with pytest.raises(LabRefused, match="two prompts of the kind"):
        PromptSet.of(kept | {"prompts": kept["prompts"] * 2})
