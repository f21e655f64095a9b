"""Where memory is short everything goes, the page says what to lower, and the next run loads and works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from specdemo.models.errors import MemoryShort
from specdemo.race import Request
from specdemo.ui.desk import Desk, Loaded
from specdemo.ui.worker import Ended, Order, Refused, Worker
from tests.ui.synthetic import Synthetic


def last_of(desk: Desk) -> object:
    worker = Worker(desk, Order("Say something.", ("ngram", "same"), Request((), max_new_tokens=8))).start()
    events: list[object] = []
    while not (events and isinstance(events[-1], Ended | Refused)):
        events += worker.drain(1.0)
    return events[-1]


def test_memory_that_runs_out_in_a_run_is_told_and_the_pair_let_go() -> None:
    loads = []
    script = Synthetic()
    engine = script.engine()

    def load(*args: Any) -> Any:
        loads.append(args)
        return engine.load(*args)

    def run_out(pair: Any, request: Request) -> Iterator[Any]:
        if len(loads) == 1:
            raise MemoryShort("The memory of cpu ran out.", "Lower max new tokens.")
        yield from engine.race(pair, request)

    desk = Desk(replace(engine, load=load, race=run_out), ("ngram", "same"))
    refused = last_of(desk)
    assert isinstance(refused, Refused)
    assert refused.params["message"] == "The memory of cpu ran out. Lower max new tokens."
    assert (desk.status.state, desk.status.message) == (Loaded.FAILED, refused.params["message"])
    assert not desk.status.facts, "of a pair that is gone"
    assert isinstance(last_of(desk), Ended)
    assert len(loads) == 2 and loads[1][2] is None  # loaded anew, over nothing


@pytest.mark.parametrize("room", [True, False])
def test_the_last_pair_goes_when_its_memory_is_wanted(room: bool) -> None:
    engine = Synthetic().engine()
    befores = []

    def load(spec: Any, progress: Any, before: Any) -> Any:
        befores.append(before)
        if spec[0] == "good-draft" and (before is not None or not room):
            raise MemoryShort("There is no room.")
        return engine.load(spec, progress, before)

    desk = Desk(replace(engine, load=load), ("ngram", "same"))
    first = desk.pair(("ngram", "same"), lambda *_: None)
    if room:
        assert desk.pair(("good-draft", "same"), lambda *_: None) == ("good-draft", "same")
    else:
        with pytest.raises(MemoryShort):
            desk.pair(("good-draft", "same"), lambda *_: None)
        assert (desk.status.state, desk.status.message) == (Loaded.FAILED, "There is no room.")
        assert not desk.status.facts, "of a pair that is gone"
        assert desk.pair(("ngram", "same"), lambda *_: None) == first
    assert desk.status.state is Loaded.READY and desk.status.facts
    assert befores[:3] == [None, first, None]
