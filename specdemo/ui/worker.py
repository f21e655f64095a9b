"""How does a plain generator of Steps reach a web page? A thread runs it and puts what happens into a queue.

The desk's device is held from before the pair is loaded to after the last step. `stop` ends the run within one step;
nothing ever waits for the thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

from specdemo.decoding.given_up import GivenUp, asking
from specdemo.decoding.steps import Parting
from specdemo.metrics import identity_promised
from specdemo.models.errors import MemoryShort
from specdemo.race import Lane, Request, RequestRefused
from specdemo.recording import Known, RaceRecord, Settled, Wrote
from specdemo.remote.faults import RemoteFault
from specdemo.ui.conversation import Conversation
from specdemo.ui.desk import Desk, Loaded, sentence
from specdemo.ui.gone import RUN, told_when_gone
from specdemo.ui.line import Place, TurnedAway
from specdemo.ui.text import Sentence

log = logging.getLogger(__name__)

DIED = "The thread of this run died. Run it again."


@dataclass(frozen=True, slots=True)
class Order:
    """What a visitor asked for: a prompt, a pair, the request that awaits the prompt's ids. before: what was said.

    visitor: Gradio's session. address: where it comes from. thinking: on, off, or None as the chat template has it.
    source, tag: what the host's log says of it.
    """

    prompt: str
    spec: Any
    request: Request
    before: Conversation = Conversation()
    visitor: str = ""
    address: str = ""
    thinking: bool | None = None
    source: str = "page"
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another run has the device. seconds: until this one begins, to five; None where nobody can say."""

    before: int = 1
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Loading:
    """The pair is being loaded."""

    message: str


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt is read next."""

    request: Request
    known: Known = Known()


@dataclass(frozen=True, slots=True)
class Ended:
    """Both lanes are through, or the run was stopped. why: a sentence on what stopped it, if no visitor did."""

    stopped: bool
    parting: Parting | None = None
    why: Sentence | None = None


@dataclass(frozen=True, slots=True)
class Paced:
    """A replay goes on at this share of its true speed."""

    speed: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The run cannot be had; key and parameters of a sentence in ui.text."""

    key: str
    params: dict[str, str] = field(default_factory=dict)


class _Left(Exception):
    """Whoever asked for a pair does not want it any more."""

    def __str__(self) -> str:
        return "The run that this pair was loaded for has been stopped. The next run loads one."


Event = Waiting | Loading | Began | Wrote | Settled | Paced | Ended | Refused


@contextmanager
def at_work(workers: dict[str, Any], visitor: str, worker: Any) -> Iterator[None]:
    """Within, the worker is the one that Stop of this visitor's page stops; then it ends, whatever it was at."""
    workers[visitor] = worker
    try:
        with told_when_gone(worker.stop):
            yield
    finally:  # perhaps on the event loop: nothing here may wait
        worker.stop.set()
        worker.shown.set()
        del workers[visitor]


class Worker:
    """One run. `drain` gives what happened since; the last event is Ended or Refused.

    running: the race has begun. stop: set it to end the run. shown: set by whoever drains, once the last event is on
    the page.
    """

    def __init__(self, desk: Desk, order: Order) -> None:
        self.desk = desk
        self.order = order
        self.stop = threading.Event()
        self.shown = threading.Event()
        self.running = False
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._told: Event | None = None  # last of what is awaited
        self._record: RaceRecord | None = None  # for the host's ledger
        # With the visitor's context: whoever lends a GPU looks there for whose time it is.
        self.thread = threading.Thread(target=copy_context().run, args=(self._work,), name=RUN, daemon=True)

    def start(self) -> Worker:
        """Begin, in a thread of its own."""
        self.thread.start()
        return self

    def drain(self, seconds: float) -> list[Event]:
        """Everything that happens within so many seconds; sooner only when the race begins or the last event comes."""
        events: list[Event] = []
        until = time.monotonic() + seconds
        while not (events and isinstance(events[-1], Began | Ended | Refused)):
            try:
                events.append(self._events.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                break
        return events

    def _work(self) -> None:
        last: Event = Refused("failed", {"message": DIED})
        ticket = None
        try:
            ticket = self.desk.take(self.stop, self._wait, self.order.address)
            last = Ended(stopped=True) if ticket is None else self._run()
        except TurnedAway as turned:
            last = Refused(*turned.reason)
        except RequestRefused as error:
            last = Refused("refused", {"message": sentence(error)})
        except MemoryShort as error:  # everything goes, so that the next run finds room
            last = Refused("refused", {"message": sentence(error)})
            self.desk.drop(sentence(error))
        except RemoteFault as error:
            last = Refused("failed", {"message": sentence(error)})
        except Exception as error:  # the page must say it and the next run must work, whatever it is
            log.exception("A run failed.")
            last = Refused("failed", {"message": sentence(error)})
        finally:  # even where the thread dies of what is no Exception
            if ticket is not None:
                self.desk.give_back(ticket)
            self._write_down(last)
            self._events.put(last)

    def _take(self, one: Wrote | Settled | Known, request: Request) -> None:
        self._events.put(Began(request, one) if isinstance(one, Known) else one)
        if self._record is None:
            return
        if isinstance(one, Known):
            self._record.known = one
        elif isinstance(one, Wrote):
            self._record.add(one)
        else:
            self._record.settle(one)

    def _write_down(self, last: Event) -> None:
        """The run is over; nothing is written of one that never began."""
        if self._record is None:
            return
        outcome = "failed"
        if isinstance(last, Ended):
            outcome, self._record.parting = "stopped" if last.stopped else "done", last.parting
        self.desk.ledger.close(self._record, outcome, self.order.source, self.order.tag)

    def _wait(self, place: Place) -> None:
        status = self.desk.status
        seconds = None if place.seconds is None else 5 * max(1, round(place.seconds / 5))
        event = Loading(status.message) if status.state is Loaded.LOADING else Waiting(place.before, seconds)
        if event != self._told:
            self._told = event
            self._events.put(event)

    def _loading(self, fraction: float | None, message: str) -> None:
        """Progress of the pair; ends the loading where nobody waits for it: the next in line may have the device."""
        if self.stop.is_set():
            raise _Left
        self._events.put(Loading(message))

    def _run(self) -> Event:
        engine = self.desk.engine
        try:
            pair = self.desk.pair(self.order.spec, self._loading)
        except Exception as error:  # refusals of a pair are sentences; anything else is told as it is
            if self.stop.is_set():
                return Ended(stopped=True)
            return Refused("unloaded", {"message": sentence(error)})
        ids = tuple(engine.encode(pair, self.order.prompt, self.order.before, self.order.thinking))
        if not ids:
            return Refused("refused.nothing")
        room = engine.context(pair)
        if len(ids) >= room:
            key = "refused.chat" if self.order.before.turns else "refused.long"
            return Refused(key, {"n": f"{len(ids):,}", "context": f"{room:,}"})
        turned = self.desk.rules.refuse_prompt(len(ids))
        if turned is not None:
            return Refused(*turned)
        request = replace(self.order.request, prompt_ids=ids)
        # Before the desk takes the caches for this visitor's: they are emptied by a race.
        request = engine.check(pair, request)
        stayed = self.desk.stayed(self.order.visitor)
        request = replace(request, reuse=self.order.before.on and stayed)
        self.running = True
        known = engine.known(pair)
        self._record = self.desk.ledger.open(self.order.prompt, request, known)
        self._events.put(Began(request, known))
        emitted, stopped = self._race(pair, request)
        self.desk.tell_facts(pair)  # graphs may have had to go
        if stopped and not self.stop.is_set():
            return Ended(stopped, why=("budget.seconds", {"seconds": f"{self.desk.rules.seconds:g}"}))
        parting = None
        if not stopped and identity_promised(request.rule, request.params.temperature):
            parting = engine.part(pair, request, emitted[Lane.BASELINE], emitted[Lane.SPECULATIVE])
        return Ended(stopped, parting)

    def _deadline(self) -> float | None:
        """How long a run that has the device from now on may have it."""
        seconds = self.desk.rules.seconds
        return None if seconds is None else time.monotonic() + seconds

    def _ends(self, until: float | None) -> bool:
        """Whether a run ends here, by its visitor or its time."""
        return self.stop.is_set() or (until is not None and time.monotonic() >= until)

    def _race(self, pair: Any, request: Request) -> tuple[dict[Lane, list[int]], bool]:
        """Run both lanes to their ends, to `stop` or as long as a run may; the ids and whether it was stopped."""
        until = self._deadline()
        emitted: dict[Lane, list[int]] = {lane: [] for lane in Lane}
        try:
            with asking(lambda: self._ends(until)), closing(self.desk.engine.race(pair, request)) as steps:
                for one in steps:
                    if one is not None:
                        self._take(one, request)
                    if isinstance(one, Wrote):
                        emitted[one.lane].extend(token.id for token in one.step.tokens)
                    if self._ends(until):
                        return emitted, True
        except GivenUp:
            return emitted, True
        return emitted, False
