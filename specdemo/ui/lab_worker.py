"""How does an experiment run for a page? As a race does: in a thread, holding the desk's device, ended at any step.

What the rows say is worked out between two steps, on no lane's clock.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from specdemo.decoding.given_up import GivenUp, asking
from specdemo.lab.experiment import LabRefused
from specdemo.lab.measure import empty, fill
from specdemo.lab.prompts import prompt_ids
from specdemo.lab.result import Result
from specdemo.lab.server_pair import ServerPair
from specdemo.models.errors import MemoryShort, ModelUnavailable, PairRefused
from specdemo.ui import worker
from specdemo.ui.desk import Desk, sentence
from specdemo.ui.lab_drawn import drawn
from specdemo.ui.lab_form import Asked
from specdemo.ui.text import Sentence
from specdemo.ui.worker import Ended, Refused

SHOW_SECONDS = 1.0  # between two tables


@dataclass(frozen=True, slots=True)
class LabOrder:
    """What a visitor asked for, on which pair. earlier: a result whose missing rows are wanted. address: whose."""

    asked: Asked
    spec: Any
    earlier: Result | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """What there is of the result by now, as lab_drawn has it."""

    result: dict[str, Any]


Event = worker.Event | Measured


class LabWorker(worker.Worker):
    """One run of an experiment. result: from when the pair is loaded; it grows."""

    def __init__(self, desk: Desk, order: LabOrder) -> None:
        super().__init__(desk, order)
        self.result: Result | None = None

    def _run(self) -> Event:
        try:
            pair = self.desk.pair(self.order.spec, self._loading)
        except Exception as error:  # refusals of a pair are sentences; anything else is told as it is
            if self.stop.is_set():
                return Ended(stopped=True)
            return Refused("unloaded", {"message": sentence(error)})
        self.desk.stayed("")  # what the caches hold from here on is no visitor's
        asked, known = self.order.asked, self.desk.engine.known(pair)
        result = empty(asked.experiment, asked.options, len(asked.cells), known.pair, known.environment)
        if self.order.earlier is not None:
            other = result.differs(self.order.earlier)
            if other is not None:
                what, names = other
                return Refused(f"lab.other.{what}", {"names": ", ".join(names)})
            result = self.order.earlier.model_copy(deep=True)
        self.result, self.running = result, True
        pair = ServerPair(pair) if asked.experiment.served else pair
        try:
            turned = self._too_long(pair)
            if turned is not None:
                return Refused(*turned)
            stopped = self._fill(pair, result)
        except MemoryShort:
            raise
        except (LabRefused, ModelUnavailable, PairRefused) as error:
            return Refused("refused", {"message": sentence(error)})
        if stopped and not self.stop.is_set():
            return Ended(stopped, why=("lab.seconds", {"seconds": f"{self.desk.rules.seconds:g}"}))
        return Ended(stopped)

    def _too_long(self, pair: Any) -> Sentence | None:
        """Why a prompt takes more tokens than this page reads; raises LabRefused."""
        if self.desk.rules.prompt_tokens is None:
            return None
        longest = max(len(prompt_ids(pair, text)) for text in self.order.asked.options.texts())
        return self.desk.rules.refuse_prompt(longest)

    def _fill(self, pair: Any, result: Result) -> bool:
        """Measure what is missing; whether it was ended before all was. The last of what there is, is always told."""
        asked, until = self.order.asked, self._deadline()
        self._tell(result)
        told, stale = time.monotonic(), False
        filling = fill(asked.experiment, asked.options, pair, asked.cells, result)
        try:
            with asking(lambda: self._ends(until)), closing(filling):
                for row in filling:
                    now = time.monotonic()
                    stale = stale or row is not None
                    if row is None and stale and now - told >= SHOW_SECONDS:
                        self._tell(result)
                        told, stale = now, False
                    if self._ends(until):
                        return not result.done
            return False
        except GivenUp:
            return True
        finally:
            self._tell(result)

    def _tell(self, result: Result) -> None:
        self._events.put(Measured(drawn(self.order.asked.experiment, result)))
