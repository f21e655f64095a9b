"""How is a number written? `×` is added by the page; digits are the same in every language."""

from __future__ import annotations


def count(value: int | None) -> str:
    """A number of tokens; a dash where nobody knows it."""
    return "–" if value is None else str(value)


def times(value: float) -> str:
    """A speedup: one decimal, two below 1.1."""
    return f"{value:.2f}" if value < 1.1 else f"{value:.1f}"


def milliseconds(seconds: float) -> str:
    """Whole milliseconds, a decimal below ten."""
    ms = 1000 * seconds
    return f"{ms:.1f}" if ms < 9.95 else f"{ms:.0f}"


def clock(seconds: float) -> str:
    """Seconds of a lane's clock."""
    return f"{seconds:.2f}" if seconds < 99.5 else f"{seconds:.0f}"


def rate(value: float) -> str:
    """Tokens per second."""
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def share(value: float) -> str:
    """A part of a whole, in percent without the sign."""
    return "< 1" if 0 < value < 0.005 else f"{100 * value:.0f}"


def gap(value: float) -> str:
    """A distance between logits."""
    return f"{value:.2g}"
