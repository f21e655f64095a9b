"""How can two lanes have the same bits on a device whose kernels depend on the number of rows? By equal shapes.

Every forward, the plain step included, runs with the same number of rows; the surplus rows stand behind the real
ones, where these cannot see them, and are forgotten. A plain step then costs as much as the longest verification, so
whatever divides by a plain step must still divide by the unpadded one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdemo.decoding.runner import Output, Runner


class EqualShapes:
    """A Runner (see decoding/runner.py) whose forwards of up to `rows` ids all run with exactly `rows`.

    Longer forwards are prefill, which both lanes do alike: they go through as they are.
    """

    def __init__(self, runner: Runner, rows: int) -> None:
        self.runner, self.rows = runner, rows
        self.vocab_size, self.device, self.notice = runner.vocab_size, runner.device, runner.notice
        self.max_length = runner.max_length - (rows - 1)  # the surplus rows take places, too

    @property
    def length(self) -> int:
        """Tokens held now."""
        return self.runner.length

    def begin(self, capacity: int) -> None:
        """Empty the cache and make room for `capacity` tokens."""
        self.runner.begin(capacity + self.rows - 1)

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that the cache holds."""
        return self.runner.held(ids)

    def resume(self, capacity: int, keep: int) -> None:
        """As `begin`, but the first `keep` tokens stay in the cache."""
        self.runner.resume(capacity + self.rows - 1, keep)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.runner.rewind(length)

    @torch.inference_mode()
    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """Append ids [n]; logits [rows, vocab_size], hidden [n, len(aux_layers) * width] of the named layers."""
        n, length = len(ids), self.runner.length
        if n > self.rows:
            return self.runner.forward(ids, rows, aux_layers)
        padded = torch.cat([ids, ids[-1:].expand(self.rows - n)])
        out = self.runner.forward(padded, self.rows, aux_layers)
        self.runner.rewind(length + n)
        hidden = None if out.hidden is None else out.hidden[:n]
        return Output(out.logits[n - rows : n], hidden)
