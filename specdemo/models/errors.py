"""What loading may refuse. Each carries one or two sentences for a person: what happened, and what to do next."""

from __future__ import annotations


class Refusal(Exception):
    """reason: the sentence without the advice after it."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason} {advice}".strip())
        self.reason = reason


class ModelUnavailable(Refusal):
    """A model could not be fetched, verified or loaded as asked."""


class MemoryShort(ModelUnavailable):
    """There is not enough memory for what was asked for; what was taken for it has been given back."""


class PairRefused(Refusal):
    """Both models may be sound, but this draft cannot speak for this target."""


def first_line(error: Exception) -> str:
    """What a library's exception says, short enough to stand inside a sentence of ours."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return " ".join(line.strip() for line in lines[: 2 if lines[0].rstrip().endswith(":") else 1])
