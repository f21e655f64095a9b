"""The worker: it stops within a step, gives the device back whatever happens, and ends with one last event."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gradio.context import LocalContext

from specdemo.decoding.given_up import refuse_given_up
from specdemo.race import Lane, Request
from specdemo.recording import RaceRecord
from specdemo.request_log import RequestLog, lines_of
from specdemo.ui.desk import Desk, Loaded
from specdemo.ui.engine import Engine
from specdemo.ui.gone import dismiss, told_when_gone
from specdemo.ui.ledger import Ledger
from specdemo.ui.runs import Run
from specdemo.ui.show import Show
from specdemo.ui.visitors import PUBLIC
from specdemo.ui.worker import DIED, Began, Ended, Event, Loading, Order, Refused, Waiting, Worker, Wrote
from tests.ui.synthetic import Synthetic, endless_load

SECONDS = 10
SPEC = ("ngram", "same")


def order(prompt: str = "Tell me", spec: tuple[str, str] = SPEC, **request: int) -> Order:
    return Order(prompt, spec, Request(prompt_ids=(), **{"max_new_tokens": 64, **request}))


def events(worker: Worker) -> list[Event]:
    """Everything until the last event."""
    seen: list[Event] = []
    while not (seen and isinstance(seen[-1], Ended | Refused)):
        drained = worker.drain(0.5)
        assert drained or worker.thread.is_alive(), "the worker fell silent"
        seen.extend(drained)
    return seen


def test_a_run_is_what_the_race_yields() -> None:
    script = Synthetic()
    seen = events(Worker(Desk(script.engine(), SPEC), order()).start())
    steps = [event for event in seen if isinstance(event, Wrote)]
    assert [(event.lane, event.step) for event in steps] == [(one.lane, one.step) for one in script.steps]
    assert {event.lane for event in steps} == set(Lane)
    began = next(event for event in seen if isinstance(event, Began))
    assert began.request.prompt_ids and began.request.max_new_tokens == 64
    assert seen[-1] == Ended(stopped=False, parting=None)


def test_stop_ends_the_race_within_one_step_and_closes_it() -> None:
    script = Synthetic(hold_at=20)
    worker = Worker(Desk(script.engine(), SPEC), order()).start()
    assert script.held.wait(SECONDS)
    worker.stop.set()
    script.go.set()
    assert events(worker)[-1] == Ended(stopped=True)
    assert script.closed.is_set() and len(script.steps) == 21


def test_the_next_run_works_after_a_stop_and_after_a_failure() -> None:
    script = Synthetic(fails_at=10)
    desk = Desk(script.engine(), SPEC)
    last = events(Worker(desk, order()).start())[-1]
    assert last == Refused("failed", {"message": "The scripted device was unplugged. Plug it in."})
    assert script.closed.is_set()
    script.fails_at = None
    assert isinstance(events(Worker(desk, order()).start())[-1], Ended)


def test_a_second_worker_waits_for_the_device_and_can_be_stopped_while_it_does() -> None:
    script = Synthetic(hold_at=5)
    desk = Desk(script.engine(), SPEC)
    desk.open()
    first = Worker(desk, order()).start()
    assert script.held.wait(SECONDS)
    second, third = Worker(desk, order()).start(), Worker(desk, order()).start()
    assert Waiting() in second.drain(1.0)
    third.stop.set()
    assert events(third)[-1] == Ended(stopped=True)
    script.hold_at = None
    script.go.set()
    assert isinstance(events(first)[-1], Ended) and isinstance(events(second)[-1], Ended)


def test_a_run_asked_for_while_loading_starts_when_the_pair_is_ready() -> None:
    script = Synthetic()
    script.loading.clear()
    desk = Desk(script.engine(), SPEC)
    desk.open()
    worker = Worker(desk, order()).start()
    assert isinstance(worker.drain(1.0)[0], Loading)
    script.loading.set()
    assert isinstance(events(worker)[-1], Ended)


def assert_who_leaves_frees_the_device(engine: Engine, busy: threading.Event) -> None:
    """busy: set by the engine once it is at what only who leaves ends."""
    desk = Desk(engine, SPEC)
    worker = Worker(desk, order()).start()
    assert busy.wait(SECONDS)
    worker.stop.set()
    assert events(worker)[-1] == Ended(stopped=True)
    desk.engine = Synthetic().engine()
    assert isinstance(events(Worker(desk, order()).start())[-1], Ended)


def test_who_leaves_while_a_pair_loads_frees_the_device() -> None:
    loading = threading.Event()
    assert_who_leaves_frees_the_device(replace(Synthetic().engine(), load=endless_load(loading)), loading)


def test_who_leaves_while_a_prompt_is_read_frees_the_device() -> None:
    reading = threading.Event()

    def race(pair: object, request: Request) -> Iterator[Wrote]:
        reading.set()
        while True:  # until somebody ends it
            refuse_given_up()
        yield

    assert_who_leaves_frees_the_device(replace(Synthetic().engine(), race=race), reading)


def test_refusals_are_sentences() -> None:
    script = Synthetic(context=40)
    desk = Desk(script.engine(), SPEC)

    def last(asked: Order) -> Event:
        return events(Worker(desk, asked).start())[-1]

    assert last(order("\x01\x02")) == Refused("refused.nothing")
    assert last(order("word " * 50)) == Refused("refused.long", {"n": "51", "context": "40"})
    assert last(order(gamma=99)).params["message"].startswith("The draft length γ must be a whole number")
    unknown = last(order(spec=("nobody", "same")))
    assert unknown == Refused("unloaded", {"message": "No model is called nobody: give a folder or a hub id."})
    assert isinstance(last(order()), Ended), "the pair before is still there"


def test_nobody_is_left_holding_the_device() -> None:
    script = Synthetic()
    desk = Desk(script.engine(), SPEC)
    worker = Worker(desk, order()).start()
    events(worker)
    assert desk.take(threading.Event(), lambda place: None)


def test_who_leaves_as_the_turn_comes_takes_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, stop = Desk(Synthetic().engine(), SPEC), threading.Event()
    monkeypatch.setattr(desk.line, "wait", lambda ticket, seconds: stop.set() or True)
    assert desk.take(stop, lambda place: None) is None and len(desk.line) == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_of_what_is_no_exception_is_told_and_holds_nothing() -> None:
    script = Synthetic()
    engine = script.engine()
    desk = Desk(replace(engine, race=lambda pair, request: sys.exit(3)), SPEC)
    worker = Worker(desk, order()).start()
    assert events(worker)[-1] == Refused("failed", {"message": DIED})
    desk.engine = engine
    assert isinstance(events(Worker(desk, order()).start())[-1], Ended)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_so_is_one_that_dies_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(Synthetic().engine(), SPEC)
    has_it = desk.line.enter()
    worker = Worker(desk, order())
    monkeypatch.setattr(worker, "_wait", lambda place: sys.exit(3))
    assert events(worker.start())[-1] == Refused("failed", {"message": DIED})
    assert len(desk.line) == 1
    desk.give_back(has_it)
    assert isinstance(events(Worker(desk, order()).start())[-1], Ended)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_so_is_the_one_that_loads() -> None:
    desk = Desk(replace(Synthetic().engine(), load=lambda *asked: sys.exit("The library left.")), SPEC)
    desk.open()
    desk._loader.join(SECONDS)
    assert (desk.status.state, desk.status.message) == (Loaded.FAILED, "The library left.")
    assert len(desk.line) == 0


def test_as_the_program_ends_a_run_is_stopped_and_written_down(tmp_path: Path) -> None:
    desk = Desk(Synthetic(pace=0.5).engine(), SPEC)
    desk.ledger = Ledger(log=RequestLog(tmp_path / "runs.jsonl"))
    worker = Worker(desk, order(max_new_tokens=512))
    event = LocalContext.event_id.set("of Gradio's")
    try:
        with told_when_gone(worker.stop):
            worker.start()
            while not worker.running:
                worker.drain(SECONDS)
            dismiss(SECONDS)
    finally:
        LocalContext.event_id.reset(event)
    (line,) = lines_of(tmp_path / "runs.jsonl")
    assert json.loads(line)["outcome"] == "stopped" and not worker.thread.is_alive()


def test_a_wall_clock_that_goes_backwards_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(2e9, -3600)
    monkeypatch.setattr(time, "time", lambda: next(now))
    script = Synthetic()
    desk = Desk(script.engine(), SPEC, PUBLIC)
    show = Show(Run(RaceRecord("Tell me", Request(prompt_ids=()))))
    show.take(events(Worker(desk, order()).start()))
    assert show.over and not show.refused
    assert show.record.comparison.speedup > 1
    assert script.closed.is_set() and len(desk.line) == 0
