"""How long work reports itself: one callback that the terminal and the page both understand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

Progress = Callable[[float | None, str], None]
"""progress(fraction, message): fraction from 0 to 1, or None while nobody can say how much is left."""


def silent(fraction: float | None, message: str) -> None:
    """For callers that show nothing."""


def watch_folder(
    finished: Callable[[], bool], folder: Path | None, total: int | None, progress: Progress, message: str
) -> None:
    """Until somebody else has finished: how large the file that grows under a folder is, against the total expected."""
    while not finished():
        progress(min(_largest_file(folder) / total, 1.0) if folder and total else None, message)
        time.sleep(0.2)


def _largest_file(folder: Path) -> int:
    largest = 0
    for path in folder.rglob("*"):
        try:
            largest = max(largest, path.stat().st_size)
        except OSError:  # renamed or deleted since it was listed
            continue
    return largest
