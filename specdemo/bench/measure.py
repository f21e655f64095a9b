"""How is it measured? Sides take turns in one process, repeat by repeat, and each repeat gives one figure of its own.

Whatever drifts (heat, other processes, memory) meets all sides of a repeat alike; the median over repeats is what
counts, and whoever else was busy meanwhile is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Protocol

from specdemo.bench.sides import Prompt, Sample, Side
from specdemo.environment import Busy

THRESHOLD = 0.05  # of a core: more than this in another process, and a result is noisy


class Watcher(Protocol):
    """Tells who else was busy since it was last asked (see environment.Watch)."""

    def busy(self, threshold: float) -> list[Busy]: ...


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every side once over every prompt. samples: by name, in the order of the prompts."""

    samples: dict[str, list[Sample]]
    busy: tuple[Busy, ...] = ()

    def speed(self, side: str) -> float:
        """tokens/s over all prompts: tokens after the first pass / seconds after it."""
        samples = self.samples[side]
        return sum(s.decoded for s in samples) / sum(s.seconds for s in samples)

    def whole_speed(self, side: str) -> float:
        """tokens/s over all prompts, the whole calls counted, prefill included."""
        samples = self.samples[side]
        return sum(len(s.ids) for s in samples) / sum(s.whole_seconds for s in samples)


def interleave(
    sides: Sequence[Side],
    prompts: Sequence[Prompt],
    repeats: int,
    watch: Watcher,
    tell: Callable[[str], None] = lambda line: None,
    around: Side | None = None,
) -> list[Repeat]:
    """Run all sides on a prompt before the next prompt; the side that goes first changes from repeat to repeat.

    around: a side that runs twice on each prompt, before all others and after them, so that drift during the others
    meets it alike; both of its samples count.
    """
    results = []
    for turn in range(repeats):
        first = turn % len(sides)
        samples: dict[str, list[Sample]] = defaultdict(list)
        watch.busy(THRESHOLD)  # what happened before this repeat is none of its business
        for prompt in prompts:
            turns = (*sides[first:], *sides[:first])
            for side in (around, *turns, around) if around else turns:
                for name, sample in side.run(prompt).items():
                    samples[name].append(sample)
        busy = tuple(watch.busy(THRESHOLD))
        results.append(Repeat(dict(samples), busy))
        tell(f"repeat {turn + 1} of {repeats}" + (f"; busy meanwhile: {', '.join(map(str, busy))}" if busy else ""))
    return results


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything timed once. seconds: by name."""

    seconds: dict[str, float]
    busy: tuple[Busy, ...] = ()


def take_turns(
    takes: dict[str, Callable[[], float]],
    repeats: int,
    watch: Watcher,
    tell: Callable[[str], None] = lambda line: None,
    most_seconds: float = inf,
) -> list[Turn]:
    """Each take gives the seconds of what it did. All of them once as a warm-up, then once in every repeat.

    most_seconds: fewer repeats, at least one, where by the warm-up's time so many would take longer in all.
    """
    turns: list[Turn] = []
    names = list(takes)
    while len(turns) <= repeats:
        first = len(turns) % len(names)
        watch.busy(THRESHOLD)
        begun = perf_counter()
        seconds = {name: takes[name]() for name in (*names[first:], *names[:first])}
        if not turns:
            fitting = most_seconds / (perf_counter() - begun) - 1
            repeats = repeats if fitting >= repeats else max(1, int(fitting))
        turns.append(Turn(seconds, tuple(watch.busy(THRESHOLD))))
    busy = busy_of(turns[1:])
    tell(f"{repeats} turns of {', '.join(names)}" + (f"; busy meanwhile: {', '.join(busy)}" if busy else ""))
    return turns[1:]


def busy_of(measured: Iterable[Repeat | Turn]) -> tuple[str, ...]:
    """Every process that was busy meanwhile once, as busy as it was at its busiest."""
    seen = sorted((process for one in measured for process in one.busy), key=lambda process: process.share)
    return tuple(map(str, {process.pid: process for process in seen}.values()))


def warm_up(sides: Iterable[Side], prompts: Iterable[Prompt]) -> dict[tuple[str, str], Sample]:
    """Every side on every prompt once, untimed: what they wrote, by (side, prompt) name, for the checks."""
    wrote = {}
    for prompt in prompts:
        for side in sides:
            wrote |= {(name, prompt.name): sample for name, sample in side.run(prompt).items()}
    return wrote
