"""The log of runs on the page: groups and alerts for whoever runs it, a sentence for everybody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdemo.log_view import HEAD
from specdemo.request_log import RequestLog
from specdemo.ui.desk import Desk
from specdemo.ui.lab_log import logged
from specdemo.ui.ledger import Ledger
from specdemo.ui.page import Page
from specdemo.ui.replay import ClosedDesk
from specdemo.ui.text import LANGUAGES, tell
from specdemo.ui.visitors import OWN, PUBLIC
from tests.test_log_view import FELL
from tests.ui.lab_world import world_engine


def a_desk(path: Path | None, rules: Any = OWN) -> Desk:
    desk = Desk(world_engine(), ("ngram", "same"), rules)
    desk.ledger = Ledger(path and RequestLog(path))
    return desk


def test_groups_and_alerts_are_those_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, FELL)), "utf-8")
    told = json.loads(Page(a_desk(file)).lab.log())["log"]
    assert told["say"] == ["lab.log.runs", {"n": "32"}] and told["head"] == list(HEAD)
    (line,) = told["lines"]
    assert len(line) == len(HEAD) and line[:3] == ["code", "–", "32"]
    (alert,) = told["alerts"]
    assert alert.startswith("Acceptance of code dropped") and "temperature changed from 0.0 to 1.0" in alert


@pytest.mark.parametrize(
    ("desk", "key"),
    [
        (lambda folder: ClosedDesk(), "lab.log.none"),
        (lambda folder: a_desk(None), "lab.log.none"),
        (lambda folder: a_desk(folder / "runs.jsonl"), "lab.log.empty"),
        (lambda folder: a_desk(folder / "runs.jsonl", PUBLIC), "lab.log.public"),
        (lambda folder: a_desk(folder), "lab.log.unread"),
    ],
)
def test_otherwise_it_is_a_sentence_with_the_next_step(desk: Any, key: str, tmp_path: Path) -> None:
    told = logged(desk(tmp_path))
    assert told.keys() == {"say"} and told["say"][0] == key
    assert all(tell(language, told["say"]) for language in LANGUAGES)
