"""What is compared: one side is a way to write an answer, and a Sample is what it wrote and how long that took.

Every side is timed by the same rule: from the moment its first tokens stand to its end, and the whole call beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from specdemo.decoding.clock import settle
from specdemo.decoding.runner import Output, Runner
from specdemo.decoding.steps import Step
from specdemo.metrics import LaneMetrics


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one side on one prompt.

    ids: the new tokens. first: how many of them the first pass gave; they count for no speed. seconds: from then to
    the end. whole_seconds: the whole call, prefill included. passes: of the target, after the first.
    forward_seconds: of `seconds`, those inside the models, where they were timed.
    """

    ids: tuple[int, ...]
    first: int
    seconds: float
    whole_seconds: float
    passes: int
    metrics: LaneMetrics | None = None
    steps: tuple[Step, ...] = ()
    forward_seconds: float | None = None

    @property
    def decoded(self) -> int:
        """Tokens after the first pass."""
        return len(self.ids) - self.first


@dataclass(frozen=True, slots=True)
class Prompt:
    """A named prompt as token ids, and the text that they are of."""

    name: str
    ids: tuple[int, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A way to answer a prompt. run gives a Sample under each name: most have one, a race has one a lane."""

    name: str
    run: Callable[[Prompt], dict[str, Sample]]

    @classmethod
    def of(cls, name: str, run: Callable[[Prompt], Sample]) -> Side:
        """A side with one Sample, under its own name."""
        return cls(name, lambda prompt: {name: run(prompt)})


# --- Ours ------------------------------------------------------------------------------------------------------------


class Stopwatch:
    """Seconds spent inside models."""

    def __init__(self) -> None:
        self.seconds = 0.0


class TimedRunner:
    """A Runner whose forwards are timed from outside, so that the engine itself carries no timers.

    On CUDA it waits for each forward: good for shares of a round, not for its speed.
    """

    def __init__(self, runner: Runner, stopwatch: Stopwatch) -> None:
        self._runner = runner
        self._stopwatch = stopwatch

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """The runner's own forward, timed."""
        settle(self._runner.device)
        begun = perf_counter()
        out = self._runner.forward(ids, rows, aux_layers)
        settle(self._runner.device)
        self._stopwatch.seconds += perf_counter() - begun
        return out


def run_lane(steps: Iterator[Step], device: torch.device, stopwatch: Stopwatch | None = None) -> Sample:
    """A lane, free-running: synchronised once before and once after. The honest reference for any other timing."""
    settle(device)
    begun = perf_counter()
    seen = [next(steps)]
    first_at = perf_counter()
    forwards = stopwatch.seconds if stopwatch else 0.0
    seen.extend(steps)
    settle(device)
    end = perf_counter()
    return sample_of(seen, end - first_at, end - begun, stopwatch.seconds - forwards if stopwatch else None)


def sample_of(
    steps: Sequence[Step], seconds: float, whole_seconds: float, forward_seconds: float | None = None
) -> Sample:
    """The Sample of a lane's Steps."""
    metrics = LaneMetrics.of(steps)
    return Sample(
        ids=tuple(metrics.ids),
        first=len(steps[0].tokens),
        seconds=seconds,
        whole_seconds=whole_seconds,
        passes=metrics.target_passes,
        metrics=metrics,
        steps=tuple(steps),
        forward_seconds=forward_seconds,
    )


# --- Theirs ----------------------------------------------------------------------------------------------------------


class _Ticks(BaseStreamer):
    """Notes when tokens arrive from `generate`, and how many at once; the prompt arrives first."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, int]] = []

    def put(self, value: Tensor) -> None:
        self.arrivals.append((perf_counter(), value.numel()))

    def end(self) -> None:
        """The time of the call's return counts, not this."""


def run_generate(model: PreTrainedModel, prompt_ids: Sequence[int], new_tokens: int, **options: object) -> Sample:
    """transformers' greedy `generate` to exactly new_tokens tokens; the model must have no end-of-text id."""
    assert model.generation_config.eos_token_id is None, "both sides write the same number of tokens"
    ids = torch.tensor([list(prompt_ids)], device=model.device)
    ticks = _Ticks()
    settle(model.device)
    begun = perf_counter()
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False, streamer=ticks, **options
    )
    settle(model.device)
    end = perf_counter()
    _, (first_at, first), *rounds = ticks.arrivals
    new = tuple(out[0, len(prompt_ids) :].tolist())
    return Sample(new, first, end - first_at, end - begun, passes=len(rounds))
