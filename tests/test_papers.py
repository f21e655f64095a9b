"""Dockerfile and docs: the same lines, options and files as the program itself has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def test_the_image_is_built_from_readmes_own_line_and_runs_as_no_root() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    make, install, start = re.search(r"^(python3 -m venv .*app\.py)$", readme, re.MULTILINE)[1].split(" && ")
    assert f"RUN {make}" in DOCKERFILE
    assert install.replace("install", "install --no-cache-dir") in DOCKERFILE
    assert DOCKERFILE.rstrip().splitlines()[-1].startswith(f"CMD {str(start.split()).replace(chr(39), chr(34))[:-1]}")
    assert re.search(r"^(python3 -m venv .*-m pytest)$", readme, re.MULTILINE)[1].split(" && ", 1)[1] in DOCKERFILE
    python = re.search(r'python_version: "(.+)"', readme)[1]
    assert f"FROM python:{python}-slim" in DOCKERFILE
    user, install_at = DOCKERFILE.index("\nUSER specdemo"), DOCKERFILE.index("\nRUN python3")
    assert user < install_at and "USER root" not in DOCKERFILE
    assert (ROOT / "requirements.txt").read_text("utf-8").count("\ntorch==") == 1


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
