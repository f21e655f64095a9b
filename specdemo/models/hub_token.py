"""Whose token opens the model hub for a load? The machine's own, unless a visitor has given one: then that.

What is fetched with a visitor's token goes into a folder of its own that nobody else is served from, and the folder
goes with the last pair that was loaded from it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from specdemo.models.cache_folder import cache_root

FORM = re.compile(r"[!-~]{1,200}")  # of a token: what a header can carry


class HubToken:
    """A visitor's token. It is equal to another of the same text, and nothing prints it."""

    def __init__(self, text: str) -> None:
        if not FORM.fullmatch(text):
            raise ValueError("A token of the model hub is one word of plain characters.")
        self._text = text
        self._folder: Path | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HubToken) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "HubToken(...)"

    def reveal(self) -> str:
        """The text, for the hub's client alone."""
        return self._text

    def folder(self) -> Path:
        """Where what it opens is kept; removed with this token, or when the program ends."""
        if self._folder is None:
            cache_root().mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="visitor-", dir=cache_root()))  # for this user's eyes alone
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def hide(self, text: str) -> str:
        """A text without it."""
        return text.replace(self._text, "[token]")


_given: ContextVar[HubToken | None] = ContextVar("given", default=None)


def given() -> HubToken | None:
    """The visitor's token that what is fetched now is fetched with; None: the machine's own."""
    return _given.get()


@contextmanager
def opened_with(token: HubToken | None) -> Iterator[None]:
    """Within, in this thread: the hub is asked with this token."""
    before = _given.set(token)
    try:
        yield
    finally:
        _given.reset(before)
