"""Who may use the device now, and which pair is loaded? One desk for all visitors: one lock, one pair, one status."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from specdemo.models.errors import MemoryShort
from specdemo.models.progress import Progress
from specdemo.ui.engine import Engine, Fact
from specdemo.ui.ledger import Ledger
from specdemo.ui.line import Line, Place, Ticket
from specdemo.ui.parts import encode
from specdemo.ui.text.below import recognise
from specdemo.ui.visitors import MINUTE, OWN, Pace, Rules

LOOK_SECONDS = 0.5  # at most between two looks of a run that waits for the device


class Loaded(StrEnum):
    """How far the pair is."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Status:
    """What the header shows. fraction: of the loading, None while nobody can say. number: grows at every change."""

    number: int = 0
    state: Loaded = Loaded.LOADING
    fraction: float | None = None
    message: str = ""
    facts: tuple[Fact, ...] = field(default=())

    def line(self) -> str:
        """As the header's script reads it."""
        fraction = None if self.fraction is None else round(self.fraction, 2)
        message = recognise(self.message)
        return encode({"state": self.state, "fraction": fraction, "message": message, "facts": self.facts})


class Desk:
    """Loads pairs and lends the device to one run at a time. `spec`: the pair to begin with. rules: for visitors.

    ledger: where runs are written down.
    """

    def __init__(self, engine: Engine, spec: Any, rules: Rules = OWN) -> None:
        self.engine = engine
        self.spec = spec
        self.rules = rules
        self.ledger = Ledger()
        self.line = Line(rules.waiting, rules.waiting_each, Pace(rules.runs_a_minute))
        self._changed = threading.Condition()
        self._status = Status()
        self._pair: tuple[Any, Any] | None = None  # spec, pair
        self._loader: threading.Thread | None = None
        self._visitor: str | None = None  # whose words the caches hold

    @property
    def status(self) -> Status:
        """As it is now."""
        return self._status

    def open(self) -> None:
        """Begin to load the first pair, in a thread, unless that is going on or done."""
        with self._changed:
            if self._loader is not None and self._loader.is_alive():
                return
            if self._status.state is Loaded.READY:
                return
            self._loader = threading.Thread(target=self._load_first, name="loader", daemon=True)
            self._tell(state=Loaded.LOADING, fraction=None, message="")
            self._loader.start()

    def watch(self, seen: int, seconds: float) -> Status:
        """The status once it differs from the one seen, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._status.number != seen, seconds)
            return self._status

    def take(self, stop: threading.Event, waiting: Callable[[Place], None], address: str = "") -> Ticket | None:
        """Wait for the device, calling `waiting` now and then; None when `stop` was set before it was free.

        What is returned is to be given back. address: the visitor's. Raises TurnedAway where too many wait, or where
        runs of this address come too often.
        """
        ticket = self.line.enter(address)
        taken = False
        try:
            while not (taken or stop.is_set()):
                # A hundred that came in the same instant must not go on looking in the same instant.
                came = self.line.wait(ticket, random.uniform(LOOK_SECONDS / 2, LOOK_SECONDS))
                taken = came and not stop.is_set()  # for who has left meanwhile, no pair is loaded
                if not taken:
                    waiting(self.line.place(ticket))
        finally:  # even where the thread dies: nobody behind it would ever have a turn
            if not taken:
                self.line.leave(ticket)
        return ticket if taken else None

    def give_back(self, ticket: Ticket) -> None:
        """The device is free again."""
        self.line.leave(ticket)

    def stayed(self, visitor: str) -> bool:
        """Whether the last run was this visitor's, too; the device must have been taken.

        Only then may what the caches hold be built upon: any other run begins by emptying them.
        """
        before, self._visitor = self._visitor, visitor
        return before == visitor != ""

    def tell_facts(self, pair: Any) -> None:
        """Tell visitors of the pair anew, where something of it has changed."""
        if self._status.facts != (facts := tuple(self.engine.facts(pair))):
            self._tell(facts=facts)

    def pair(self, spec: Any, progress: Progress) -> Any:
        """The pair of this spec, loaded if it is not the last one; the device must have been taken.

        Raises what the engine raises. A pair that cannot be had leaves the last one in place, unless its memory was
        wanted.
        """
        known, before = self._pair or (None, None)
        if before is not None and known == spec:
            try:
                self.engine.still(before)
            finally:
                self.tell_facts(before)  # a server may have been started anew
            return before
        pair = None
        try:
            pair = self.engine.load(spec, progress, before)
        except MemoryShort:
            if before is None:
                raise
        if pair is None:  # there may be room once the last pair is gone
            before = None
            self._let_go(Loaded.LOADING, "")
            try:
                pair = self.engine.load(spec, progress, None)
            except BaseException as error:
                self._tell(state=Loaded.FAILED, message=sentence(error))
                raise
        self._pair = (spec, pair)
        self._tell(state=Loaded.READY, fraction=None, message="", facts=tuple(self.engine.facts(pair)))
        return pair

    def drop(self, why: str) -> None:
        """Hold no pair, nor name one: the next run loads one. For when memory is short."""
        self._let_go(Loaded.FAILED, why)

    def _let_go(self, state: Loaded, message: str) -> None:
        self._pair = None
        self._tell(state=state, fraction=None, message=message, facts=())

    def _load_first(self) -> None:
        def progress(fraction: float | None, message: str) -> None:
            self._tell(fraction=fraction, message=message)

        ticket = self.line.enter(counts=False)
        try:
            while not self.line.wait(ticket, MINUTE):
                pass
            self.pair(self.spec, progress)
        except BaseException as error:  # whatever it is, a person must read it on the page
            self._tell(state=Loaded.FAILED, fraction=None, message=sentence(error))
        finally:
            self.line.leave(ticket)

    def _tell(self, **changes: Any) -> None:
        with self._changed:
            self._status = replace(self._status, number=self._status.number + 1, **changes)
            self._changed.notify_all()


def sentence(error: BaseException) -> str:
    """An exception as a person should read it; ours already are sentences."""
    text = str(error).strip()
    return text or f"{type(error).__name__}."
