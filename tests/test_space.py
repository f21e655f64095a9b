"""What is written for a Space: the commit as it is, but for what its hardware wants otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.checkout import ROOT, needs_checkout

pytestmark = needs_checkout
ZERO_TORCH = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")  # as huggingface.co/docs/hub/spaces-zerogpu lists them
ZERO_PYTHON = ("3.10.13", "3.12.12")


def space(folder: Path, hardware: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/space.py", "--hardware", hardware, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def committed(name: str) -> str:
    return subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True).stdout


def changed(before: str, after: str) -> list[tuple[str, str]]:
    return [pair for pair in zip(before.splitlines(), after.splitlines(), strict=True) if pair[0] != pair[1]]


def test_on_a_cpu_it_is_the_commit(tmp_path: Path) -> None:
    done = space(tmp_path / "space", "cpu-basic")
    assert "can be uploaded: hf upload YOU/NAME" in done.stdout, done.stderr
    names = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    written = {str(path.relative_to(tmp_path / "space")) for path in (tmp_path / "space").rglob("*") if path.is_file()}
    assert written == set(names.stdout.splitlines())
    for name in ("README.md", "requirements.txt", "app.py"):
        assert (tmp_path / "space" / name).read_text("utf-8") == committed(name)


def test_on_zero_gpu_torch_and_python_are_listed_ones(tmp_path: Path) -> None:
    assert space(tmp_path / "space", "zero-gpu").returncode == 0
    _, front, body = (tmp_path / "space" / "README.md").read_text("utf-8").split("---\n", 2)
    _, front_before, body_before = committed("README.md").split("---\n", 2)
    read, before = yaml.safe_load(front), yaml.safe_load(front_before)
    assert body == body_before
    assert read == before | {"python_version": read["python_version"], "suggested_hardware": "zero-a10g"}
    assert read["python_version"] in ZERO_PYTHON and read["sdk"] == "gradio"
    required = (tmp_path / "space" / "requirements.txt").read_text("utf-8")
    ((_, torch),) = changed(committed("requirements.txt"), required)
    assert torch.removeprefix("torch==") in ZERO_TORCH


@pytest.mark.parametrize("clone", [True, False])
def test_only_a_new_folder_or_a_clone_is_written_to(clone: bool, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    if clone:
        (tmp_path / ".git").mkdir()
    done = space(tmp_path, "cpu-basic")
    assert (done.returncode == 0) is clone and (tmp_path / "app.py").exists() is clone
    assert clone or "holds something else already: name a new folder" in done.stderr


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = space(tmp_path / "file" / "space", "cpu-basic")
    assert done.returncode == 1 and "was not written: Not a directory. It takes git, a clone" in done.stderr
