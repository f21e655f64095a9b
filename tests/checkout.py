"""Is this a git checkout, and what is tracked in it? The image of the Dockerfile has neither .git nor git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IS_ONE = (ROOT / ".git").exists() and shutil.which("git") is not None

needs_checkout = pytest.mark.skipif(not IS_ONE, reason="this is no git checkout, or git is not installed")


def tracked() -> list[str]:
    """The files that are tracked, from the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]
