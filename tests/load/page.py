"""A page that runs in a process of its own: where it stands, and when its pair is ready."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def stands(page: subprocess.Popen) -> str:
    """Its address, with a slash at its end, once it is told; page's output is text that nobody has read."""
    for line in page.stdout:
        if found := re.search(r"http://[\d.]+:\d+", line):
            return f"{found[0]}/"
    raise SystemExit("The page did not stand.")


def ready(health: Callable[[], dict]) -> None:
    """Wait until the pair is loaded."""
    while (told := health())["state"] == "loading":
        time.sleep(0.2)
    if told["state"] != "ready":
        raise SystemExit(f"The pair could not be loaded. {told['message']}")
