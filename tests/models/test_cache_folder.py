"""A cached folder is there whole or not at all, whoever asks and whatever goes wrong."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specdemo.models import cache_folder
from specdemo.models.cache_folder import MANIFEST, cached_folder, is_whole, origin_of, verdict_on
from specdemo.models.errors import ModelUnavailable
from specdemo.models.progress import silent

BUILDER = """
import sys, time
from pathlib import Path
from specdemo.models.cache_folder import cached_folder

def build(folder, scratch):
    with open(sys.argv[1], "a") as log:
        log.write("built\\n")
    (folder / "first").write_bytes(b"1" * 1000)
    time.sleep(float(sys.argv[2]))
    (folder / "second").write_bytes(b"2" * 1000)
    return "a test"

said = []
folder = cached_folder("thing", build, 0, lambda fraction, message: said.append(message))
assert all(len((folder / name).read_bytes()) == 1000 for name in ("first", "second"))
print(said[:1])
"""


def build(folder: Path, scratch: Path) -> str:
    (folder / "weights").write_bytes(b"w" * 100)
    return "a test"


def fail(error: Exception) -> cache_folder.Build:
    def build(folder: Path, scratch: Path) -> str:
        (folder / "weights").write_bytes(b"half")
        raise error

    return build


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def start_builder(log: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILDER, str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_it_is_built_once(cache: Path) -> None:
    folder = cached_folder("thing", build, 0, silent)
    assert folder == cache / "thing"
    assert origin_of(folder) == "a test"
    assert cached_folder("thing", fail(AssertionError("built again")), 0, silent) == folder


def test_a_failed_build_leaves_nothing(cache: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no such registry"):
        cached_folder("thing", fail(ModelUnavailable("no such registry")), 0, silent)
    assert folders(cache) == []


def test_a_disk_that_fills_up_leaves_nothing_and_says_what_to_do(cache: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(ModelUnavailable, match=r"disk is full.* about 0\.8 GB in .*cache.* Free some space") as refusal:
        cached_folder("thing", fail(full), 800_000_000, silent)
    assert "SPECDEMO_CACHE" in str(refusal.value)
    assert folders(cache) == []


def test_too_small_a_disk_is_noticed_before_anything_is_fetched(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(ModelUnavailable, match="disk is full"):
        cached_folder("thing", fail(AssertionError("built")), 2, silent)
    assert folders(cache) == []


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECDEMO_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelUnavailable, match=r"cannot be used .*Set SPECDEMO_CACHE"):
        cached_folder("thing", build, 0, silent)


@pytest.mark.parametrize("damage", ["weights", MANIFEST])
def test_a_damaged_folder_is_built_again(cache: Path, damage: str) -> None:
    folder = cached_folder("thing", build, 0, silent)
    with (folder / damage).open("r+b") as file:
        file.truncate(10)
    assert not is_whole(folder)
    cached_folder("thing", build, 0, silent)
    assert is_whole(folder)
    assert folders(cache) == ["thing"]


def test_a_flipped_bit_is_found_by_who_looks_for_it(cache: Path) -> None:
    assert verdict_on(cache / "thing").startswith("not there yet")
    folder = cached_folder("thing", build, 0, silent)
    assert verdict_on(folder) == f"whole, by the SHA-256 of every file, in {folder}"
    before = (folder / "weights").stat()
    (folder / "weights").write_bytes(b"w" * 99 + b"v")
    os.utime(folder / "weights", ns=(before.st_atime_ns, before.st_mtime_ns))  # as a disk loses one
    assert is_whole(folder)
    assert verdict_on(folder).startswith(f"damaged (weights): remove {folder}, and the next start")
    (folder / "weights").unlink()
    assert verdict_on(folder).startswith("damaged: remove")


def test_what_was_written_to_is_summed_up_at_the_next_start(cache: Path) -> None:
    folder = cached_folder("thing", build, 0, silent)
    (folder / "weights").write_bytes(b"w" * 99 + b"v")
    assert not is_whole(folder)
    cached_folder("thing", build, 0, silent)
    assert (folder / "weights").read_bytes() == b"w" * 100
    os.utime(folder / "weights", ns=(0, 0))  # as after a copy
    assert cached_folder("thing", fail(AssertionError("built again")), 0, silent) == folder


def test_two_processes_at_once_build_once(cache: Path, tmp_path: Path) -> None:
    builders = [start_builder(tmp_path / "log", 1.5) for _ in range(2)]
    said = [builder.communicate(timeout=60)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert (tmp_path / "log").read_text() == "built\n"
    assert sum("Waiting for another process" in line for line in said) == 1
    assert folders(cache) == ["thing"]


def test_a_killed_process_leaves_no_folder_and_the_next_one_builds(cache: Path, tmp_path: Path) -> None:
    builder = start_builder(tmp_path / "log", 60)
    deadline = time.monotonic() + 30
    while not list(cache.glob("unfinished-*/folder/first")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    assert not (cache / "thing").exists()
    assert is_whole(cached_folder("thing", build, 0, silent))
    assert folders(cache) == ["thing"]
