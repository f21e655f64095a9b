"""What the Dockerfile does, done here: its commands one by one, as somebody who is not root, without Docker.

The folders of the image lie in a scratch folder. Python and pip are stand-ins that write down what they were asked:
what they would install is resolved by .ci/run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from specdemo.app_options import app_parser

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "Dockerfile").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
STEPS = [
    tuple(line.split(" ", 1))
    for line in TEXT.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]
HOME = "/home/specdemo"
PYTHON = """#!/bin/sh
echo "$0 $*" >> "$LOG"
[ "$1 $2" = "-m venv" ] || exit 0
mkdir -p "$3/bin" && for name in python pip; do cp "$0" "$3/bin/$name"; done
"""


def of(kind: str) -> list[str]:
    """What stands behind every instruction of this kind."""
    return [rest for name, rest in STEPS if name == kind]


def somebody() -> list[str]:
    """Before a command: as a user who is not root, where this one is."""
    return ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"] if os.geteuid() == 0 else []


def test_its_commands_work_one_by_one_for_who_is_not_root(tmp_path: Path) -> None:
    if somebody() and not shutil.which("setpriv"):
        pytest.skip("root, and no setpriv to be somebody else with")
    image, log = tmp_path / "image", tmp_path / "log"
    (image / "bin").mkdir(parents=True)
    (image / HOME[1:]).mkdir(parents=True)
    (image / "bin" / "python3").write_text(PYTHON)
    (image / "bin" / "python3").chmod(0o755)
    log.touch()
    if os.geteuid() == 0:
        for parent in (path for path in tmp_path.parents if path != path.parent and "pytest-" in str(path)):
            parent.chmod(parent.stat().st_mode | 0o011)
        tmp_path.chmod(0o755)
        for path in (log, image / HOME[1:]):
            os.chown(path, 1000, 1000)
    values = dict(one.split("=", 1) for one in of("ARG"))
    environment = values | {"PATH": f"{image / 'bin'}:/usr/bin:/bin", "LOG": str(log), "HOME": str(image / HOME[1:])}
    user, here = "root", image
    for kind, rest in STEPS:
        rest = rest.replace(HOME, str(image / HOME[1:]))
        if kind == "USER":
            user = rest
        elif kind == "WORKDIR":
            here = Path(rest)
            assert here.is_dir(), "made by root else, and nobody else could write there"
        elif kind == "COPY" and rest.startswith("--chown=specdemo requirements.txt"):
            shutil.copy(ROOT / "requirements.txt", here)
        elif kind == "RUN" and user == "root":
            assert rest == "useradd --create-home --uid 1000 specdemo", "all else is done by specdemo"
        elif kind == "RUN":
            command = [*somebody(), "sh", "-c", rest]
            done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    assert user == "specdemo" and (here / "torch.txt").read_text("utf-8").startswith("torch==")
    asked = [line.split(" ", 1)[1] for line in log.read_text("utf-8").splitlines()]
    torch, rest = asked[1:]
    assert asked[0] == "-m venv .venv"
    assert torch == f"install --no-cache-dir --index-url {values['TORCH_FROM']} -r torch.txt"
    assert rest == "install --no-cache-dir -r requirements.txt"


def test_what_it_copies_is_there_and_what_it_starts_is_a_page_in_public() -> None:
    assert {one.split()[1] for one in of("COPY")} == {"requirements.txt", "."}
    assert all(one.startswith("--chown=specdemo ") for one in of("COPY"))
    python, program, *options = json.loads(of("CMD")[0])
    args = app_parser().parse_args(options)
    assert (python, program) == (".venv/bin/python", "app.py") and (ROOT / program).is_file()
    assert args.public and args.host == "0.0.0.0" and of("EXPOSE") == ["7860"] and args.port is None
    assert re.search(r"-p 7860:7860\b", TEXT)


def test_the_readmes_two_lines_work_inside() -> None:
    """Both make .venv in the folder of the clone, which is specdemo's: the image has it there already."""
    run, test = (re.search(f"^python3 .*{end}$", README, re.MULTILINE)[0] for end in (r"app\.py", "-m pytest"))
    assert of("WORKDIR") == [f"{HOME}/demo"]
    install, start = run.split(" && ")[1:]
    assert install in "".join(of("RUN")).replace("--no-cache-dir ", "")
    assert start.split() == json.loads(of("CMD")[0])[:2]
    told = shlex.split(re.search(r"^# The tests: (.*)$", TEXT, re.MULTILINE)[1])
    assert told[:5] == ["docker", "run", "--rm", "specdemo", "sh"]
    assert told[-1] == " && ".join(test.split(" && ")[1:])
    python = re.search(r'python_version: "(.+)"', README)[1]
    assert of("FROM") == [f"python:{python}-slim"], "the same as a Space's"
