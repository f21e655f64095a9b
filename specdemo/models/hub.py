"""Files of a hub repository, on this disk; every way that can fail, as a sentence."""

from __future__ import annotations

import errno
import io
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from huggingface_hub import HfApi, errors, snapshot_download
from tqdm import tqdm

from specdemo.models.errors import ModelUnavailable, first_line
from specdemo.models.hub_token import HubToken, given
from specdemo.models.progress import Progress, watch

# It prints every retry, with addresses; what comes of them is a sentence here.
logging.getLogger("huggingface_hub.utils._http").setLevel(logging.ERROR)


def download(
    repository: str,
    patterns: Sequence[str],
    progress: Progress,
    message: str,
    revision: str | None = None,
    into: Path | None = None,
) -> Path:
    """Files whose names match a pattern, in the hub's own cache or in the folder `into`.

    repository: owner/name, or owner/name@revision where no revision is given: a branch, a tag or a commit.
    With a visitor's token (see hub_token) the files go into that token's own cache.
    Raises ModelUnavailable; a full disk passes as the OSError it is when the files go into a folder of ours.
    """
    if revision is None and "@" in repository:
        repository, _, revision = repository.partition("@")
    bars: list[tqdm] = []

    class SilentBar(tqdm):
        """Counts what the client reports, and draws nothing."""

        def __init__(self, *args: object, **arguments: object) -> None:
            super().__init__(*args, **(arguments | {"file": io.StringIO()}))
            if self.unit == "B":
                bars.append(self)

    arguments = {"revision": revision, "allow_patterns": list(patterns), "local_dir": into, "tqdm_class": SilentBar}
    visitor = given() if into is None else None
    if visitor is not None:
        arguments |= {"token": visitor.reveal(), "cache_dir": visitor.folder()}
    with ThreadPoolExecutor(1) as worker:
        task = worker.submit(snapshot_download, repository, **arguments)
        watch(task.done, lambda: max((bar.n / bar.total for bar in bars if bar.total), default=None), progress, message)
    try:
        return Path(task.result())
    except Exception as error:  # the client raises its own, its HTTP library's and the system's errors
        if into is not None and isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        if visitor is not None:  # no trace of what was sent hangs on the sentence
            raise _refusal_to(visitor, repository, revision, error) from None
        raise _refusal(repository, revision, error) from error


def is_gated(name: str) -> bool:
    """Whether a model's name is that of a repository whose terms must be accepted first; anybody may ask the hub that.

    False where it does not answer: the download says why, then.
    """
    repository, _, revision = name.partition("@")
    try:
        if Path(repository).expanduser().exists():
            return False
        told = HfApi().model_info(repository, revision=revision or None, expand=["gated"], timeout=10, token=False)
    except Exception:  # the client raises its own, its HTTP library's and the system's errors
        return False
    return bool(told.gated)


def named_path(name: str) -> Path:
    """A model's name as a path, which need not exist; ModelUnavailable where it can be neither path nor repository."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long a name; the home of somebody unknown
        shown = name if len(name) <= 60 else f"{name[:57]}..."
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ModelUnavailable(f"No model can be called {shown} ({reason}): give a folder or a hub id.") from error
    return path


def _refusal_to(visitor: HubToken, repository: str, revision: str | None, error: Exception) -> ModelUnavailable:
    """Why a visitor's token did not open the repository; a word of the token in no case."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        advice = "Accept its terms on its page on the model hub with the account of this token, and try again."
        return ModelUnavailable(f"{repository} is gated.", advice)
    if status == 401:  # the hub says so, too, where there is no such repository
        return ModelUnavailable(
            f"This token opens no repository {repository}.",
            "Check how both are spelled, and whether the token may read.",
        )
    if status == 403:
        return ModelUnavailable(f"This token may not read {repository}.", "Give it that right on the model hub.")
    refusal = _refusal(repository, revision, error)
    return ModelUnavailable(visitor.hide(str(refusal)))


def _refusal(repository: str, revision: str | None, error: Exception) -> ModelUnavailable:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return ModelUnavailable(
            f"{repository} is gated.",
            "Accept its terms on its page on the model hub, log in here with `hf auth login` or give the page your "
            "token, and try again.",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return ModelUnavailable(
            f"There is neither a folder nor a public hub repository {repository}.",
            "Check how the name is spelled; if it is private, log in here with `hf auth login`.",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelUnavailable(
            f"{repository} has no revision {revision}.",
            "Name one of its branches, tags or commits behind the @, or leave it out.",
        )
    if status == 401:
        return ModelUnavailable(
            "The model hub refuses this machine's token.",
            "Log in again with `hf auth login`, or unset HF_TOKEN, and try again.",
        )
    if status == 403:
        return ModelUnavailable(
            f"This machine's token may not read {repository}.",
            "Give it that right on the model hub, or log in with another one, and try again.",
        )
    if isinstance(error, errors.HFValidationError):
        return ModelUnavailable(f"{repository} is neither a folder nor the name of a hub repository (owner/name).")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelUnavailable(f"The disk is full: {repository} does not fit.", "Free some space and try again.")
    # the client looked in its own cache, too; what its HTTP library raises half way through a file is no system error
    unreachable = any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
    if unreachable or isinstance(error, errors.LocalEntryNotFoundError | ConnectionError):
        return ModelUnavailable(
            f"The model hub cannot be reached, and {repository} is not in its cache on this machine.",
            "Connect to the network and try again, or give a local folder.",
        )
    return ModelUnavailable(f"The model hub could not give {repository}: {first_line(error).rstrip('.')}.")
