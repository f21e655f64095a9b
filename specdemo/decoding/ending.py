"""Where a lane ends: one rule for both lanes over end-of-text ids, stop strings, the token budget and the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specdemo.decoding.steps import Stop

Stopper = Callable[[Sequence[int]], int | None]
"""stopper(newly emitted ids) -> how many of them to keep once a stop string is complete, else None. Has a state."""


@dataclass(frozen=True, slots=True)
class Limits:
    """max_new_tokens: the budget. context: what prompt and output may take together. eos_ids: any of them ends."""

    max_new_tokens: int
    context: int
    eos_ids: frozenset[int] = frozenset()


class Ending:
    """One lane's end. left: tokens that may still be emitted."""

    def __init__(self, limits: Limits, prompt_length: int, stopper: Stopper | None = None):
        room = limits.context - prompt_length
        assert limits.max_new_tokens >= 1 and room >= 1, "checked before a lane starts"
        self._eos_ids = limits.eos_ids
        self._stopper = stopper
        self._exhausted = Stop.BUDGET if limits.max_new_tokens <= room else Stop.CONTEXT
        self.left = min(limits.max_new_tokens, room)

    def cut(self, ids: Sequence[int]) -> tuple[int, Stop | None]:
        """How many of a round's tokens stand, and why the lane ends with them (None: it goes on)."""
        keep, stop = len(ids), None
        if self.left <= keep:
            keep, stop = self.left, self._exhausted
        for i, token in enumerate(ids[:keep]):
            if token in self._eos_ids:
                keep, stop = i + 1, Stop.EOS
                break
        if self._stopper is not None:
            kept = self._stopper(ids[:keep])
            if kept is not None:
                keep, stop = kept, Stop.STOP_STRING
        self.left -= keep
        return keep, stop
