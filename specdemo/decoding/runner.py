"""What the decoders ask of a model: run these ids after what you hold, forget the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from specdemo.decoding.given_up import refuse_given_up


@dataclass(slots=True)
class Output:
    """Result of one forward pass over n ids.

    logits: [rows, vocab] of the last `rows` positions, on the runner's device, in any float dtype.
    hidden: [n, len(aux_layers) * width], the named layers' outputs side by side; None if none was asked for.
    """

    logits: Tensor
    hidden: Tensor | None = None


class Runner(Protocol):
    """A causal language model over one sequence, with a preallocated KV cache.

    vocab_size: width of the logits. max_length: tokens that the context may hold, at most. length: tokens held now.
    notice: why this is not the fastest forward, in a sentence; "" where it is. shapes: numbers of rows whose forwards
    have the same bits, where others have not (see EqualShapes); empty where no such list is needed or known.
    """

    vocab_size: int
    max_length: int
    length: int
    device: torch.device
    notice: str
    shapes: tuple[int, ...]

    def twin(self) -> Runner:
        """Another one over the same weights, with a cache of its own."""

    def begin(self, capacity: int, keep: int = 0) -> None:
        """Empty the cache, but for the first `keep` tokens, and make room for `capacity` in all.

        Allocates only when the room does not suffice.
        """

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that the cache holds."""

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """Append ids [n] (int64, on device) to the cache; logits of the last `rows` of them (rows >= 0)."""

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens. O(1): nothing is copied."""


def read_together(*tensors: Tensor) -> list[list[float]]:
    """What stands in each tensor, flat, for one wait for the device: through float64, which holds every id exactly."""
    read = torch.cat([tensor.flatten().double() for tensor in tensors]).tolist()
    ends = list(accumulate(tensor.numel() for tensor in tensors))
    return [read[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def on_device(ids: Sequence[int], device: torch.device) -> Tensor:
    """ids [n] as a tensor on the device; the host does not wait until it is there."""
    return torch.tensor(ids, dtype=torch.long).to(device, non_blocking=True)


PREFILL_CHUNK = 256  # as fast as any on two cores, where it takes 0.6 s: so soon a lane that is given up ends


def prefill(runner: Runner, ids: Tensor, aux_layers: tuple[int, ...] = ()) -> Output:
    """Run a prompt [n] through in chunks, so that attention scores never take n * n; logits of the last position.

    Raises GivenUp before a chunk that nobody waits for (see given_up.py).
    """
    hidden = []
    for start in range(0, len(ids), PREFILL_CHUNK):
        refuse_given_up()
        chunk = ids[start : start + PREFILL_CHUNK]
        last = start + len(chunk) == len(ids)
        out = runner.forward(chunk, rows=int(last), aux_layers=aux_layers)
        hidden.append(out.hidden)
    return Output(out.logits, torch.cat(hidden) if aux_layers else None)
