"""Does anybody still wait for what is read? Asked between the chunks of a prompt, which takes seconds; steps are short.

Who knows stands far above who reads, so it is said for all that a thread does meanwhile, by a context variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_GIVEN_UP: ContextVar[Callable[[], bool]] = ContextVar("given_up", default=lambda: False)


class GivenUp(Exception):
    """Nobody waits any more."""


@contextmanager
def asking(given_up: Callable[[], bool]) -> Iterator[None]:
    """Within, `given_up` says whether nobody waits any more. Around no `yield`: it would speak for the caller, too."""
    before = _GIVEN_UP.set(given_up)
    try:
        yield
    finally:
        _GIVEN_UP.reset(before)


def refuse_given_up() -> None:
    """Raise GivenUp if nobody waits any more."""
    if _GIVEN_UP.get()():
        raise GivenUp
