"""One lane while it runs: its Steps, the text that each token adds, its figures; and the Trace that is left of it."""

from __future__ import annotations

from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from specdemo.decoding.steps import Step, Stop, Trace
from specdemo.metrics import LaneMetrics
from specdemo.models.text import Detokenizer
from specdemo.race import Lane, Request


class Recording:
    """A fold over a lane's Steps. texts has one entry per emitted token, "" while a character is incomplete."""

    def __init__(self, lane: Lane, tokenizer: PreTrainedTokenizerBase) -> None:
        self.lane = lane
        self.steps: list[Step] = []
        self.texts: list[str] = []
        self.metrics = LaneMetrics()
        self._detokenizer = Detokenizer(tokenizer)

    def add(self, step: Step) -> None:
        """Take the lane's next step."""
        self.steps.append(step)
        self.metrics.add(step)
        self.texts.extend(self._detokenizer.add(token.id) for token in step.tokens)
        if step.stop:
            self._flush()

    def stop(self) -> None:
        """Somebody stopped the lane; no effect on one that has ended by itself or has not begun."""
        if self.steps and self.steps[-1].stop is None:
            self.steps[-1] = replace(self.steps[-1], stop=Stop.STOPPED)
            self.metrics.stop = Stop.STOPPED
            self._flush()

    def trace(self, request: Request, pair: dict[str, str], environment: dict[str, str]) -> Trace:
        """What is left of the lane: enough to show, measure and replay it."""
        return Trace(
            lane=self.lane.value,
            prompt_ids=request.prompt_ids,
            params=request.params,
            rule=request.rule,
            steps=tuple(self.steps),
            texts=tuple(self.texts),
            pair=pair,
            environment=environment,
        )

    def _flush(self) -> None:
        """The last token's text takes what was held back for a character that never came."""
        if self.texts:
            self.texts[-1] += self._detokenizer.flush()
