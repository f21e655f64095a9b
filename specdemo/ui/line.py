"""Whose turn is it? One run has the device, the others stand in a line of bounded length, first come, first served."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from specdemo.ui.visitors import Pace, Turned

REMEMBERED = 8  # runs from which the wait is estimated


@dataclass(frozen=True, slots=True)
class Place:
    """before: runs that come first, the one under way included. seconds: until this one begins, where one can say."""

    before: int = 1
    seconds: float | None = None


class TurnedAway(Exception):
    """No place in the line is to be had; reason: key and parameters of a sentence."""

    def __init__(self, reason: Turned) -> None:
        super().__init__(reason[0])
        self.reason = reason


@dataclass(eq=False, slots=True)
class Ticket:
    """A place in the line. address: whose. counts: whether it is a run, which bounds and estimates count.

    turn: set when it is first; its own, since a hundred who wait must not all be woken at every run's end.
    """

    address: str
    counts: bool
    turn: threading.Event = field(default_factory=threading.Event)


class Line:
    """Tickets in the order they were drawn; the first of them has the device."""

    def __init__(self, most: int, most_each: int | None = None, pace: Pace | None = None) -> None:
        self._most, self._most_each, self._pace = most, most_each, pace or Pace(None)
        self._tickets: deque[Ticket] = deque()
        self._lock = threading.Lock()
        self._began = 0.0
        self._lasted: deque[float] = deque(maxlen=REMEMBERED)

    def enter(self, address: str = "", *, counts: bool = True) -> Ticket:
        """A place at the end; one that does not count always has it. Raises TurnedAway where none is to be had."""
        ticket = Ticket(address, counts)
        with self._lock:
            if counts:
                self._refuse(address)
            self._tickets.append(ticket)
            if len(self._tickets) == 1:
                self._began = time.monotonic()
                ticket.turn.set()
        return ticket

    def wait(self, ticket: Ticket, seconds: float) -> bool:
        """Whether it is this ticket's turn, after at most so many seconds."""
        return ticket.turn.wait(seconds)

    def leave(self, ticket: Ticket) -> None:
        """Out of the line, from wherever it stands."""
        with self._lock:
            if self._tickets[0] is ticket:
                now = time.monotonic()
                if ticket.counts:
                    self._lasted.append(now - self._began)
                self._began = now
            self._tickets.remove(ticket)
            if self._tickets:
                self._tickets[0].turn.set()

    def place(self, ticket: Ticket) -> Place:
        """Where it stands now."""
        with self._lock:
            before = max(1, self._tickets.index(ticket))  # its turn may have come since it last looked
            if not self._lasted:
                return Place(before)
            usual = sum(self._lasted) / len(self._lasted)
            under_way = max(0.0, usual - (time.monotonic() - self._began))
            return Place(before, under_way + (before - 1) * usual)

    def __len__(self) -> int:
        """How many have the device or wait for it."""
        return len(self._tickets)

    def _refuse(self, address: str) -> None:
        if len(self._tickets) > self._most:  # one of them has the device
            raise TurnedAway(("refused.full", {"n": str(self._most)}))
        turned = self._pace.refuse(address)  # a full line is nobody's own doing, and is not counted
        if turned is not None:
            raise TurnedAway(turned)
        own = [one.address == address for one in self._tickets]
        if self._most_each is not None and sum(own[1:]) >= self._most_each:  # the first one has the device
            raise TurnedAway(("refused.each", {"n": str(sum(own))}))
