"""What loading may refuse. Each carries one or two sentences for a person: what happened, and what to do next."""

from __future__ import annotations


class ModelUnavailable(Exception):
    """A model could not be fetched, verified or loaded as asked. reason: the sentence without the advice after it."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason} {advice}".strip())
        self.reason = reason


class MemoryShort(ModelUnavailable):
    """There is not enough memory for what was asked for; what was taken for it has been given back."""


class PairRefused(Exception):
    """Both models may be sound, but this draft cannot speak for this target."""


def first_line(error: Exception) -> str:
    """What a library's exception says, short enough to stand inside a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
