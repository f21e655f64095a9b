"""Imports point down only, as the design's map says; read from the source of every file, nothing is imported here."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "specdemo").rglob("*.py"))

# Room -> floor; a file may import its own room and lower floors. A file not named here is of the floor of its folder.
FLOORS = {
    "specdemo.decoding": 0,
    "specdemo.models": 1,
    "specdemo.drafters": 1,
    "specdemo.theory": 1,
    "specdemo.examples": 1,
    "specdemo.option_names": 1,
    "specdemo.exit_codes": 1,
    "specdemo.sampling_options": 1,
    "specdemo.tables": 1,
    "specdemo.prompt_kind": 1,
    "specdemo.loading_bar": 1,
    "specdemo.metrics": 2,
    "specdemo.race": 2,
    "specdemo.environment": 2,
    "specdemo.config": 3,
    "specdemo.race_options": 3,
    "specdemo.trace_files": 3,
    "specdemo.recording": 4,
    "specdemo.terminal": 5,
    "specdemo.request_log": 5,
    "specdemo.log_view": 6,
    "specdemo.lab": 6,
    "specdemo.remote": 6,
    "specdemo.distill": 6,
    "specdemo.doctor": 6,
    "specdemo.bench": 7,
    "specdemo.ui": 7,
    "specdemo.app_options": 8,
    "specdemo.cli": 9,
    "specdemo.__main__": 10,
}
# Rooms on one floor that may know each other.
NEIGHBOURS = {("specdemo.models", "specdemo.drafters"), ("specdemo.lab", "specdemo.remote")}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def top(module: str) -> str:
    return module.split(".")[0]


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, those inside functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module":
            assert module_of(path) == "specdemo.cli", f"{path}: an import that cannot be read from the source"
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module == "specdemo":
                found.update(f"specdemo.{alias.name}" for alias in node.names)
            else:
                found.add(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_file_imports_only_its_own_room_and_rooms_below(path: Path) -> None:
    room = room_of(module_of(path))
    if room == "specdemo":
        assert not imports_of(path)
        return
    for module in imports_of(path):
        if top(module) == "specdemo":
            below = room_of(module)
            allowed = FLOORS[below] < FLOORS[room] or below == room or (room, below) in NEIGHBOURS
            assert allowed, f"{room} imports {module}"


@pytest.mark.parametrize("path", [f for f in FILES if "decoding" in f.parts], ids=module_of)
def test_the_engine_knows_tensors_and_the_standard_library_only(path: Path) -> None:
    known = {"torch", "numpy", "specdemo", *sys.stdlib_module_names}
    assert {top(module) for module in imports_of(path)} <= known


def test_gradio_is_known_to_the_page_only() -> None:
    users = {room_of(module_of(path)) for path in FILES for module in imports_of(path) if top(module) == "gradio"}
    assert users <= {"specdemo.ui"}


def test_what_is_imported_is_what_is_required() -> None:
    """requirements.txt lists every package that is imported, and nothing that nobody uses."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    required = {line.split("==")[0] for line in lines if line and not line.startswith("#")}
    required = required - {"pyyaml"} | {"yaml"}  # as it is imported
    used = {top(module) for path in [*FILES, ROOT / "app.py"] for module in imports_of(path)}
    optional = {"spaces", "flashspec"}  # every Space has the one; the other has an environment of its own
    assert used - set(sys.stdlib_module_names) - {"specdemo", "pydantic_core"} <= required | optional
    loaded_by_transformers = {"accelerate", "bitsandbytes"}
    assert required - used <= loaded_by_transformers


def test_page_and_remote_lanes_stand_without_torch() -> None:
    """A replay and a lane on a server need no model, and the page of one that loads stands before it."""
    begin = "import app, specdemo.remote.command; from specdemo.models.pair_options import PairSpec"
    build = "from specdemo.ui.page import build_page; from specdemo.ui.visitors import OWN"
    built = "build_page(*app._races(PairSpec(), OWN)); build_page(*app._replays())"
    command = f"import sys; {begin}; {build}; {built}; print({{'torch', 'transformers'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr
