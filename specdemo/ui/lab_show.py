"""How does a run of the Lab stand? A fold over its worker's events: the state, a sentence, and the result so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdemo.ui.lab_worker import Event, Measured
from specdemo.ui.parts import encode
from specdemo.ui.text import Sentence
from specdemo.ui.text.below import passed_on
from specdemo.ui.worker import Ended, Loading, Refused, Waiting


class LabShow:
    """over: nothing more will come. value: for the page's script."""

    def __init__(self) -> None:
        self.over = False
        self._state = "starting"
        self._say: Sentence = ("lab.starting", {})
        self._result: dict[str, Any] | None = None
        self.value = self._encoded()

    def take(self, events: Sequence[Event]) -> None:
        """Fold in what happened."""
        for event in events:
            self._take(event)
        if events:
            self.value = self._encoded()

    def _take(self, event: Event) -> None:
        match event:
            case Waiting(before, seconds):
                key = "lab.waiting" if seconds is None else "lab.waiting.seconds"
                self._state, self._say = "waiting", (key, {"n": str(before), "seconds": str(seconds)})
            case Loading(message):
                self._state, self._say = "loading", passed_on("lab.loading", message=message)
            case Measured(result):
                self._result = result
                self._state, self._say = "running", ("lab.running", {})
            case Refused(key, params):
                self._state, self._say, self.over = "refused", passed_on(key, **params), True
            case Ended(stopped, _, why):
                self._state, self.over = "stopped" if stopped else "done", True
                self._say = why or (f"lab.{self._state}", {})

    def _encoded(self) -> str:
        state = {"state": self._state, "running": not self.over, "say": self._say, "result": self._result}
        return encode({"run": state})
