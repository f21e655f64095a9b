"""How long work reports itself: one callback that the terminal and the page both understand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

Progress = Callable[[float | None, str], None]
"""progress(fraction, message): fraction from 0 to 1, or None while nobody can say how much is left."""


def silent(fraction: float | None, message: str) -> None:
    """For callers that show nothing."""


def watch(finished: Callable[[], bool], fraction: Callable[[], float | None], progress: Progress, message: str) -> None:
    """Report how far somebody else has come, five times a second, until they have finished."""
    while not finished():
        done = fraction()
        progress(None if done is None else min(done, 1.0), message)
        time.sleep(0.2)


def largest_file(folder: Path) -> int:
    """Bytes of the largest file anywhere under a folder: of a download that grows there, in whatever temporary file."""
    largest = 0
    for path in folder.rglob("*"):
        try:
            largest = max(largest, path.stat().st_size)
        except OSError:  # renamed or deleted since it was listed
            continue
    return largest
