"""What came out: a line of the table, with its goal and whether it was reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Goal:
    """Bounds, both included; None where there is none."""

    at_least: float | None = None
    at_most: float | None = None

    def __bool__(self) -> bool:
        """Whether there is a bound at all: without one, a figure is shown and not judged."""
        return (self.at_least, self.at_most) != (None, None)

    def reached_by(self, value: float) -> bool:
        """Whether a value lies within."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Result:
    """One line. values: one for each repeat. unit: "×" for ratios, "%" for shares (which are kept as fractions).

    figures: what explains the value, by side: tokens/s, acceptance, where a round's time goes. notes: what a reader
    should know. faults: what makes the value void, whatever it is. busy: who else worked meanwhile.
    """

    row: str
    what: str
    values: tuple[float, ...]
    goal: Goal
    unit: str = "×"
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """The median over the repeats."""
        return median(self.values)

    @property
    def reached(self) -> bool:
        """Whether the goal was met by a sound measurement."""
        return not self.faults and self.goal.reached_by(self.value)

    @property
    def noisy(self) -> bool:
        """Whether another process was busy meanwhile."""
        return bool(self.busy)
