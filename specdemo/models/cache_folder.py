"""A cache in which a folder is there whole or not at all, however many processes ask and whatever goes wrong.

A folder is built under another name beside its place and renamed when it is finished; a manifest inside lists the
size of every file, so that a file cut short later is noticed and the folder built again. It lists their SHA-256, too:
that takes too long for every start, and is what `specdemo doctor` looks at.
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
    """Whether every file is there at the size it was written with."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text("utf-8"))["bytes"]
        return all((folder / file).stat().st_size == size for file, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):  # the last two of JSON that is no manifest
        return False


def verdict_on(folder: Path) -> str:
    """What its files' SHA-256 say of it, and what to do where that is nothing good."""
    again = f"remove {folder}, and the next start builds it again"
    if not folder.exists():
        return f"not there yet: the first start builds it in {folder}"
    try:
        sums = json.loads((folder / MANIFEST).read_text("utf-8")).get("sha256")
        if sums is None:
            return f"in {folder}; its SHA-256 were not written down: to know more, {again}"
        found = _sums(folder / name for name in sums)
    except (OSError, ValueError, AttributeError, TypeError):
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
        written = {"bytes": {file.name: file.stat().st_size for file in files}, "sha256": _sums(files)}
        manifest = json.dumps({"origin": origin, **written}, indent=1)
        (unfinished / MANIFEST).write_text(manifest, "utf-8")
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
