"""Writes a folder that can be uploaded to a Hugging Face Space as it is: this commit, with front matter and pins for
the Space's hardware.

    python scripts/space.py --hardware zero-gpu FOLDER
    hf upload YOU/NAME FOLDER . --repo-type space
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The newest of what https://huggingface.co/docs/hub/spaces-zerogpu lists (torch 2.8.0, 2.9.1, 2.10.0, 2.11.0; Python
# 3.10.13, 3.12.12): elsewhere a build fails, or CUDA is not stood in for.
ZERO_TORCH, ZERO_PYTHON = "2.11.0", "3.12.12"


def front_matter(readme: str, hardware: str) -> str:
    """README.md as the Space reads it."""
    if hardware != "zero-gpu":
        return readme
    readme = _once(r"(?m)^python_version: .*$", f'python_version: "{ZERO_PYTHON}"', readme)
    return _once(r"(?m)^pinned: .*$", r"\g<0>\nsuggested_hardware: zero-a10g", readme)  # so is any ZeroGPU named there


def requirements(text: str, hardware: str) -> str:
    """requirements.txt as the Space installs it."""
    return text if hardware != "zero-gpu" else _once(r"(?m)^torch==.*$", f"torch=={ZERO_TORCH}", text)


def _once(pattern: str, by: str, text: str) -> str:
    text, count = re.subn(pattern, by, text, count=1)
    assert count == 1, f"nothing matches {pattern}"
    return text


def write(folder: Path, hardware: str) -> None:
    """Everything that is committed, over whatever the folder holds."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], capture_output=True, check=True).stdout
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    for name, change in (("README.md", front_matter), ("requirements.txt", requirements)):
        path = folder / name
        path.write_text(change(path.read_text("utf-8"), hardware), "utf-8")


def main() -> None:
    """Write the folder and say what comes next."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0] + ".")
    parser.add_argument("--hardware", choices=("cpu-basic", "zero-gpu"), required=True, help="what the Space runs on")
    parser.add_argument("folder", type=Path, help="a new one, or a clone of the Space")
    args = parser.parse_args()
    folder = args.folder
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / ".git").is_dir())):
        sys.exit(f"{folder} holds something else already: name a new folder, or a clone of the Space.")
    try:
        write(folder, args.hardware)
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.strerror if isinstance(error, OSError) else error.stderr.decode(errors="replace").strip()
        sys.exit(f"{folder} was not written: {why}. It takes git, a clone of the repository, and a folder to write to.")
    print(f"{folder} can be uploaded: hf upload YOU/NAME {folder} . --repo-type space")


if __name__ == "__main__":
    main()
