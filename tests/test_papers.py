"""Dockerfile and docs: the same options and files as the program itself has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def test_every_option_that_the_docs_name_exists() -> None:
    texts = [(ROOT / name).read_text("utf-8") for name in ("docs/space.md", "docs/troubleshooting.md", "CHANGELOG.md")]
    named = set(re.findall(r"`(?:app\.py )?(--[a-z-]+)", "".join([*texts, DOCKERFILE])))
    done = subprocess.run([sys.executable, "app.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"--public", "--auth-env"} <= named <= set(re.findall(r"--[a-z-]+", done.stdout))


def test_every_file_that_the_docs_name_exists() -> None:
    for paper in ("CONTRIBUTING.md", "CHANGELOG.md", "docs/api.md", "docs/space.md", "docs/troubleshooting.md"):
        for name in re.findall(
            r"`((?:specdemo|tests|docs|ui|models|decoding|drafters)/[\w/.]*)`", (ROOT / paper).read_text("utf-8")
        ):
            assert (ROOT / name).exists() or (ROOT / "specdemo" / name).exists(), f"{paper}: {name}"
