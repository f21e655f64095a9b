"""N-gram lookup: propose what followed the most recent occurrence of the text's last words (prompt lookup decoding).

The index is kept up to date token by token, so a proposal costs a few dictionary look-ups whatever the length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding.drafter import Draft, Draw
from specdemo.decoding.runner import on_device


class NgramDrafter:
    """Proposes a continuation copied from prompt and output; a one-hot q, and no model at all.

    It looks for the longest suffix first, from `longest` tokens down to `shortest` (Saxena 2023), and copies on
    through its own proposal where the match ends at the end of the text.
    """

    aux_layers: tuple[int, ...] = ()

    def __init__(self, device: torch.device, longest: int = 4, shortest: int = 2, max_length: int = 1 << 30):
        self.max_length = max_length
        self._device = device
        self._lengths = range(longest, shortest - 1, -1)
        self._ids: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}  # n-gram -> index of the token after its latest occurrence

    def twin(self) -> NgramDrafter:
        """Another one, for another text."""
        return NgramDrafter(self._device, self._lengths[0], self._lengths[-1], self.max_length)

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """Index a prompt and the first token after it, all of it again whatever was kept."""
        self._ids, self._next = [], {}
        for token in prompt_ids.tolist():
            self._append(token)
        self._append(first)

    def held(self, ids: Tensor) -> int:
        """All: the index is made anew in a moment, whatever it held."""
        return len(ids)

    def forget(self) -> None:
        """Without an index."""
        self._ids, self._next = [], {}

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """Up to gamma tokens that followed the latest match; none where nothing matches."""
        return self.draft_of(self.look_up(gamma)[0])

    def draft_of(self, copied: Sequence[int]) -> Draft:
        """What `look_up` has copied, as a draft."""
        return Draft(on_device(copied, self._device))

    def look_up(self, gamma: int, counted: int = 0) -> tuple[list[int], int]:
        """What `propose` copies, and how many tokens before it match the text's last ones, counted so far at most."""
        start, ids = self._match(), self._ids
        if start is None:
            return [], 0
        copied: list[int] = []
        for i in range(start, start + gamma):
            copied.append(ids[i] if i < len(ids) else copied[i - len(ids)])
        matched = 0
        while matched < min(counted, start) and ids[start - 1 - matched] == ids[-1 - matched]:
            matched += 1
        return copied, matched

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """Index the round's tokens."""
        for token in tokens:
            self._append(token)

    def _match(self) -> int | None:
        for n in self._lengths:
            start = self._next.get(tuple(self._ids[-n:])) if len(self._ids) > n else None
            if start is not None:
                return start
        return None

    def _append(self, token: int) -> None:
        # the n-grams that end just before this token are followed by it: only now, so the suffix never finds itself
        for n in self._lengths:
            if len(self._ids) >= n:
                self._next[tuple(self._ids[-n:])] = len(self._ids)
        self._ids.append(token)
