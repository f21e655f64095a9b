"""How can two lanes have the same bits on a device whose kernels depend on the number of rows? By equal shapes.

Every forward, the plain step included, runs with one of the numbers of rows that agree; the surplus rows stand behind
the real ones, where these cannot see them, and are forgotten. A plain step may then cost more than it needs to, so
whatever divides by a plain step must still divide by the fastest one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding.runner import Output, Runner


class EqualShapes:
    """A Runner (see decoding/runner.py) whose short forwards are padded to the next of `shapes`, numbers of rows.

    Forwards longer than all of these are prefill, which both lanes do alike: they go through as they are.
    """

    def __init__(self, runner: Runner, shapes: Sequence[int]) -> None:
        self.runner, self.shapes = runner, tuple(sorted(shapes))
        longest = self.shapes[-1]
        self._padded = [next(rows for rows in self.shapes if rows >= n) for n in range(longest + 1)]
        self._surplus = max(rows - n for n, rows in enumerate(self._padded) if n)
        self.vocab_size, self.device, self.notice = runner.vocab_size, runner.device, runner.notice
        self.max_length = runner.max_length - self._surplus  # the surplus rows take places, too

    @property
    def length(self) -> int:
        """Tokens held now."""
        return self.runner.length

    def twin(self) -> EqualShapes:
        """Another one over the same weights, with a cache of its own."""
        return EqualShapes(self.runner.twin(), self.shapes)

    def begin(self, capacity: int, keep: int = 0) -> None:
        """Empty the cache, but for the first `keep` tokens, and make room for `capacity` in all."""
        self.runner.begin(capacity + self._surplus, keep)

    def prepare(self, capacity: int) -> None:
        """Record what `begin` would, where forwards are recorded (see captured.py)."""
        self.runner.prepare(capacity + self._surplus)

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that the cache holds."""
        return self.runner.held(ids)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.runner.rewind(length)

    @torch.inference_mode()
    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """Append ids [n]; logits [rows, vocab_size], hidden [n, len(aux_layers) * width] of the named layers."""
        n, length = len(ids), self.runner.length
        shape = self._padded[n] if n < len(self._padded) else n
        if n == shape:
            return self.runner.forward(ids, rows, aux_layers)
        out = self.runner.forward(torch.cat([ids, ids[-1:].expand(shape - n)]), shape, aux_layers)
        self.runner.rewind(length + n)
        hidden = None if out.hidden is None else out.hidden[:n]
        return Output(out.logits[n - rows : n], hidden)
