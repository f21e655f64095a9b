"""Which races does a visitor's page still know? The last few, in memory, with all their Steps, for as long as it lives.

A browser does not say that it is gone without a connection of its own, so a visitor's runs go when nobody has asked
for them in a while, or when newer visitors need the room.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from specdemo.recording import RaceRecord

RUNS_KEPT = 12  # of a visitor
VISITORS_KEPT = 24
IDLE_SECONDS = 3600.0

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Run:
    """A race under its number; the record grows while the race goes on. listed: it has a row in the table."""

    record: RaceRecord
    listed: bool = True
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True)
class _Visitor:
    listed: deque[Run] = field(default_factory=lambda: deque(maxlen=RUNS_KEPT))
    shown: Run | None = None  # what stands in the panes, a replay included
    asked: float = 0.0


class Runs:
    """Runs by visitor (Gradio's session) and number. recorded: runs that came with the program and are everybody's."""

    def __init__(self, recorded: Iterable[RaceRecord] = ()) -> None:
        self.recorded = [Run(record) for record in recorded]
        self._visitors: OrderedDict[str, _Visitor] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, visitor: str, run: Run, *, in_panes: bool = True) -> None:
        """Remember a run, from its beginning: it can be asked for while it goes on."""
        with self._lock:
            kept = self._asks(visitor) or self._visitors.setdefault(visitor, _Visitor(asked=time.monotonic()))
            while len(self._visitors) > VISITORS_KEPT:
                self._visitors.popitem(last=False)
            if in_panes:
                kept.shown = run
            if run.listed:
                kept.listed.append(run)

    def find(self, visitor: str, number: int) -> Run | None:
        """The visitor's own run of that number, or a recorded one; None when it is gone or was never theirs."""
        with self._lock:  # who has no runs takes no place from who has
            kept = self._asks(visitor) or _Visitor()
            known = (kept.shown, *kept.listed, *self.recorded)
        return next((run for run in known if run is not None and run.number == number), None)

    def _asks(self, visitor: str) -> _Visitor | None:
        """What is known of a visitor, who is here; those who have not asked for long go."""
        now = time.monotonic()
        while self._visitors and now - next(iter(self._visitors.values())).asked > IDLE_SECONDS:
            self._visitors.popitem(last=False)
        kept = self._visitors.get(visitor)
        if kept is not None:
            kept.asked = now
            self._visitors.move_to_end(visitor)
        return kept
