"""What does the Lab keep of its visitors? So many things of a kind, by whose they are; the oldest make room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from specdemo.lab.ballot import Ballot
from specdemo.lab.result import Result
from specdemo.ui.lab_form import Asked

Thing = TypeVar("Thing")


@dataclass(slots=True)
class Kept:
    """A visitor's result, what asked for it, and the blind vote over it while there is one."""

    asked: Asked
    result: Result
    ballot: Ballot | None = None


class Shelf(Generic[Thing]):
    """At most so many things."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._things: OrderedDict[Hashable, Thing] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, whose: Hashable, thing: Thing) -> None:
        """Keep it in place of what was there."""
        with self._lock:
            self._things[whose] = thing
            self._things.move_to_end(whose)
            while len(self._things) > self._most:
                self._things.popitem(last=False)

    def of(self, whose: Hashable) -> Thing | None:
        """What is kept; None where there is nothing, or no more."""
        with self._lock:
            return self._things.get(whose)
