"""A cache in which a folder is there whole or not at all, however many processes ask and whatever goes wrong.

A folder is built under another name beside its place and renamed when it is finished; a manifest inside lists every
file's size, SHA-256 and the time it was written, so that one that was cut short or written to is noticed and the folder
built again. What nobody has written to since is not summed up at every start, which would take half a second: a bit
that a disk lost by itself is what `specdemo doctor` looks for.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import platformdirs

from specdemo.models.errors import ModelUnavailable
from specdemo.models.progress import Progress

MANIFEST = "specdemo.json"
UNFINISHED = "unfinished-"

Build = Callable[[Path, Path], str]
"""build(folder, scratch) -> origin: fill the folder; scratch is thrown away; origin: where its contents are from."""


def cache_root() -> Path:
    """$SPECDEMO_CACHE, else the place this system keeps caches in."""
    return Path(os.environ.get("SPECDEMO_CACHE") or platformdirs.user_cache_dir("specdemo", appauthor=False))


def cached_folder(name: str, build: Build, needs_bytes: int, progress: Progress) -> Path:
    """The folder of this name in the cache, built first if it is not there.

    Raises ModelUnavailable when the disk is full or the cache cannot be written; whatever `build` raises passes.
    """
    root = cache_root()
    folder = root / name
    if is_whole(folder):
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root / f"{name}.lock", progress):
            if not is_whole(folder):  # another process may have built it while this one waited
                _build(folder, build, needs_bytes)
    except OSError as error:
        raise _unwritable(error, root, needs_bytes) from error
    return folder


def is_whole(folder: Path) -> bool:
    """Whether every file is there as it was written: at its size, and untouched since or with the same SHA-256."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        found = {name: (folder / name).stat() for name in manifest["bytes"]}
        if any(found[name].st_size != size for name, size in manifest["bytes"].items()):
            return False
        touched = [name for name, time in manifest["written_ns"].items() if found[name].st_mtime_ns != time]
        return all(sum_ == manifest["sha256"][name] for name, sum_ in _sums(folder / name for name in touched).items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):  # the last two of JSON that is no manifest
        return False


def verdict_on(folder: Path) -> str:
    """What its files' SHA-256 say of it, and what to do where that is nothing good."""
    again = f"remove {folder}, and the next start builds it again"
    if not folder.exists():
        return f"not there yet: the first start builds it in {folder}"
    try:
        sums = json.loads((folder / MANIFEST).read_text("utf-8"))["sha256"]
        found = _sums(folder / name for name in sums)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return f"damaged: {again}"
    damaged = [name for name in sums if sums[name] != found[name]]
    return (
        f"damaged ({', '.join(damaged)}): {again}" if damaged else f"whole, by the SHA-256 of every file, in {folder}"
    )


def _sums(files: Iterable[Path]) -> dict[str, str]:
    sums = {}
    for path in files:
        with path.open("rb") as file:
            sums[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def origin_of(folder: Path) -> str:
    """Where a cached folder's contents are from."""
    return json.loads((folder / MANIFEST).read_text("utf-8"))["origin"]


def _build(folder: Path, build: Build, needs_bytes: int) -> None:
    """Under the lock, so whatever unfinished folder lies here was left by a process that was killed."""
    for leftover in folder.parent.glob(f"{UNFINISHED}{folder.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if shutil.disk_usage(folder.parent).free < needs_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    scratch = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{folder.name}-", dir=folder.parent))
    try:
        unfinished = scratch / "folder"
        unfinished.mkdir()
        origin = build(unfinished, scratch)
        files = sorted(unfinished.iterdir())
        found = {file.name: file.stat() for file in files}
        manifest = {
            "origin": origin,
            "bytes": {name: stat.st_size for name, stat in found.items()},
            "written_ns": {name: stat.st_mtime_ns for name, stat in found.items()},
            "sha256": _sums(files),
        }
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
        if folder.exists():  # a damaged one: out of the way first, a rename cannot replace a full folder
            folder.rename(scratch / "damaged")
        unfinished.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a lock between processes; says so while another one has it."""
    lock = filelock.FileLock(path)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.5)
        except filelock.Timeout:
            progress(None, "Waiting for another process that is preparing the same model")
    try:
        yield
    finally:
        lock.release()


def _unwritable(error: OSError, root: Path, needs_bytes: int) -> ModelUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelUnavailable(
            f"The disk is full: preparing the model needs about {needs_bytes / 1e9:.1f} GB in {root}. "
            "Free some space, or set SPECDEMO_CACHE to a folder on another disk, and try again."
        )
    return ModelUnavailable(
        f"The model cache {root} cannot be used ({error.strerror or error}). "
        "Set SPECDEMO_CACHE to a folder that can be written, and try again."
    )
