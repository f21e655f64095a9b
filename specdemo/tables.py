"""A markdown table whose columns also stand straight in a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Headings, and the lines under them."""
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    rows = (_row(line, widths) for line in (head, ["-" * width for width in widths], *lines))
    return "\n".join(rows)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
