"""Files of a hub repository, on this disk; every way that can fail, as a sentence."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from huggingface_hub import errors, snapshot_download

from specdemo.models.errors import ModelUnavailable
from specdemo.models.progress import Progress, watch_folder


def download(
    repository: str,
    patterns: Sequence[str],
    progress: Progress,
    message: str,
    revision: str | None = None,
    into: Path | None = None,
    total: int | None = None,
) -> Path:
    """Files whose names match a pattern, in the hub's own cache or in the folder `into` (whose growth is reported).

    Raises ModelUnavailable; a full disk passes as the OSError it is when the files go into a folder of ours.
    """
    with ThreadPoolExecutor(1) as worker:
        task = worker.submit(
            snapshot_download, repository, revision=revision, allow_patterns=list(patterns), local_dir=into
        )
        watch_folder(task.done, into, total, progress, message)
    try:
        return Path(task.result())
    except Exception as error:  # the client raises its own, its HTTP library's and the system's errors
        if into is not None and isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ModelUnavailable(_sentence(repository, error)) from error


def _sentence(repository: str, error: Exception) -> str:
    if isinstance(error, errors.GatedRepoError):
        return (
            f"{repository} is gated: accept its terms on the model hub's page of it, log in on this machine with "
            "`hf auth login`, and try again."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"There is no folder and no public hub repository {repository}: check how the name is spelled."
    if isinstance(error, errors.HFValidationError):
        return f"{repository} is neither a folder on this machine nor the name of a hub repository (owner/name)."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full: {repository} does not fit. Free some space and try again."
    if isinstance(error, errors.HfHubHTTPError):
        return f"The model hub refused {repository}: {_first_line(error)}"
    return (
        f"The model hub cannot be reached, and {repository} is not in its cache on this machine: {_first_line(error)} "
        "Connect to the network and try again, or give a local folder."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
