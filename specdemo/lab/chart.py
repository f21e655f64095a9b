"""Figures beside each other, some with the range that the prompts leave open: what a chart of rows shows, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A figure and its range, where one is known."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """marks[series][place], None where nothing was measured. across: what the places are.

    joined: the places have an order, so that a line leads from one to the next. even: where break-even is, if anywhere.
    """

    title: str
    across: str
    places: tuple[str, ...]
    series: tuple[str, ...]
    marks: tuple[tuple[Mark | None, ...], ...]
    joined: bool = False
    even: float | None = None


def mark(value: float | None, between: tuple[float, float] | None = None) -> Mark | None:
    """A figure with its interval; None where there is no figure."""
    return None if value is None else Mark(value, *(between or (None, None)))
