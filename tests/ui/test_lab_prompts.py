"""Prompts that a visitor brings to the Lab: read within bounds, kept by visitor, never opened by name."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from specdemo.lab import prompt_files
from specdemo.lab.experiment import LabRefused
from specdemo.ui import lab_prompts
from specdemo.ui.desk import Desk
from specdemo.ui.lab import Lab
from specdemo.ui.lab_brought import brought
from specdemo.ui.lab_form import Asked, Form, FormRefused
from specdemo.ui.lab_prompts import taken
from specdemo.ui.lab_show import LabShow
from specdemo.ui.lab_worker import LabOrder, LabWorker
from specdemo.ui.page import Page
from specdemo.ui.text import LANGUAGES, say, tell
from specdemo.ui.text.below import recognise
from specdemo.ui.visitors import OWN, PUBLIC
from tests.lab.worlds import World
from tests.threads import one_thread  # noqa: F401
from tests.ui.lab_world import world_engine

MINE = """{"prompt": "hello", "kind": "greeting"}
{"prompt": "what is a list?", "kind": "question"}
{"prompt": "and a set?", "kind": "question"}
"""


def visitor(name: str) -> Any:
    return SimpleNamespace(session_hash=name, headers={}, client=None)


ANN, BOB = visitor("ann"), visitor("bob")


def event(**data: Any) -> Any:
    return SimpleNamespace(_data=data)


def ask(lab: Lab, who: Any, **options: str) -> dict[str, Any]:
    return json.loads(lab.plan(who, event(experiment="tasks", options={"gammas": "2", **options})))["plan"]


@pytest.fixture
def lab() -> Lab:
    return Page(Desk(world_engine(), ("ngram", "same"), OWN)).lab


def test_what_was_brought_is_the_visitors_own_and_named_by_what_it_holds(lab: Lab) -> None:
    answer = json.loads(lab.prompts(ANN, event(field="prompts", name="C:\\me\\mine.jsonl", text=MINE)))["prompts"]
    key = answer["set"].pop("key")
    assert answer == {"field": "prompts", "set": {"name": "mine.jsonl", "n": 3, "kinds": ["greeting", "question"]}}
    assert ask(lab, ANN, prompts=key) == {"rows": 3}
    assert ask(lab, ANN, prompts=key, kinds="question", per_kind="1") == {"rows": 1}
    assert "There is no kind" in tell("en", ask(lab, ANN, prompts=key, kinds="chat")["wrong"])
    for who, name in ((BOB, key), (ANN, "mine.jsonl"), (ANN, "/etc/passwd"), (ANN, "x" * 99_999)):
        assert ask(lab, who, prompts=name)["wrong"][1]["why"][0] == "lab.refused.prompts.gone"


def test_no_name_that_a_visitor_sends_is_opened(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    read = prompt_files.read_prompts
    monkeypatch.setattr(prompt_files, "read_prompts", lambda path: pytest.fail(f"{path} is opened"))
    for name in ("/etc/passwd", "../../tasks.json", "mine.jsonl"):
        assert "wrong" in ask(lab, ANN, prompts=name)
        file = json.dumps(
            {"experiment": "tasks", "options": {"prompts": name}, "pair": {}, "environment": {}, "cells": 0}
        )
        assert json.loads(lab.bring(ANN, event(text=file)))["refused"]
    assert read is not prompt_files.read_prompts


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("mine.txt", MINE, "should be .jsonl"),
        (None, None, "should be .jsonl"),
        ("mine.jsonl", "", "it is empty"),
        ("mine.jsonl", '{"prompt": "x"}\n{"kind": "b"}', "mine.jsonl, line 2: the key `prompt` is missing."),
        (
            "mine.jsonl",
            "<img src=x>",
            "mine.jsonl, line 1: this is not JSON (Expecting value: line 1 column 1 (char 0)).",
        ),
        ("mine.jsonl", "[" * 99_999, "mine.jsonl, line 1: this is not JSON"),
        ("mine.json", '{"a": [{"text": 1}]}', "mine.json, 'a', number 1: `text` should be a text that is not empty."),
        ("mine.jsonl", " " * (lab_prompts.LARGEST + 1), "larger than 512 KiB"),
        ("mine.jsonl", '{"prompt": "x"}\n' * (lab_prompts.MOST + 1), "more than 1000 prompts"),
        ("mine.jsonl", json.dumps({"prompt": "x" * 20_001}), "longer than 20000 characters"),
        ("mine.jsonl", json.dumps({"prompt": "x", "kind": "k" * 61}), "longer than 60 characters"),
    ],
)
def test_a_wrong_file_is_a_sentence_in_every_language(name: Any, text: Any, said: str) -> None:
    with pytest.raises(LabRefused) as refused:
        taken(name, text)
    found = recognise(str(refused.value))
    assert said in str(refused.value) and isinstance(found, tuple)
    told = [tell(language, ("lab.refused.prompts", {"message": found})) for language in LANGUAGES]
    assert said in told[0] and len(set(told)) == 3
    assert told[1].startswith(say("zh-CN", "lab.refused.prompts", message="")) and said not in told[1]


def run(rules: Any, asked: Asked, earlier: Any = None) -> tuple[LabWorker, dict[str, Any]]:
    desk = Desk(world_engine(World()), ("ngram", "same"), rules)
    worker, show = LabWorker(desk, LabOrder(asked, ("ngram", "same"), earlier)).start(), LabShow()
    while not show.over:
        show.take(worker.drain(0.5))
    return worker, json.loads(show.value)["run"]


def read(form: Form, text: str, **options: str) -> Asked:
    made = taken("mine.jsonl", text)
    return form.read(
        "tasks", {"gammas": "2", "max_new_tokens": "8", "prompts": made.key, **options}, {made.key: made}.get
    )


def test_a_result_holds_its_prompts_so_that_another_page_goes_on_with_it() -> None:
    form = Form(OWN, ("ngram",))
    worker, shown = run(OWN, read(form, MINE))
    assert shown["state"] == "done" and [row["kind"] for row in worker.result.rows] == ["greeting", *["question"] * 2]
    assert "prompts mine.jsonl (3)" in worker.result.markdown(worker.order.asked.experiment)
    part = json.loads(worker.result.model_dump_json())
    part["rows"] = part["rows"][:1]
    one = brought(json.dumps(part), form)
    written = form.written(one.asked.options)
    assert written["prompts"]["n"] == 3 and written["gammas"] == "2" and written["per_kind"] == ""
    _, shown = run(OWN, one.asked, one.result)
    assert shown["state"] == "done" and shown["result"]["done"] == 3
    part["options"]["prompts"]["prompts"][1]["text"] = "x" * 20_001
    with pytest.raises(LabRefused, match="longer than 20000 characters"):
        brought(json.dumps(part), form)


def test_in_public_rows_and_tokens_of_a_prompt_are_bounded() -> None:
    form = Form(PUBLIC, ("ngram",))
    with pytest.raises(FormRefused) as refused:
        read(form, '{"prompt": "x"}\n' * 121)
    assert refused.value.sentence[0] == "lab.refused.rows"
    long = json.dumps({"prompt": "x" * 50})
    rules = replace(PUBLIC, prompt_tokens=49)
    worker, shown = run(rules, read(form, MINE + long))
    assert shown["state"] == "refused" and shown["say"] == ["refused.prompt", {"n": "50", "most": "49"}]
    assert worker.result.rows == []
    assert run(rules, read(form, MINE))[1]["state"] == "done"
