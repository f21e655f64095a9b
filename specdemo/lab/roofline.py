"""Is a plain step bound by memory at all? What it reads and multiplies, against what this device can at best.

A draft pays because a step that reads all weights for one token can judge several for the same reading. Where a step
computes rather than reads, or waits for launches, it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from specdemo.models.pair import Pair

SIZES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}  # bytes of a weight, by precision
BUSY = 0.4  # share of a ceiling from which a step is said to be bound by it; a tuned kernel reaches 0.7 to 0.9


class Bound(StrEnum):
    """What a plain step waits for."""

    MEMORY = "memory"
    ARITHMETIC = "arithmetic"
    OVERHEAD = "overhead"  # neither ceiling is near: launches, Python, small kernels


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one target step. weights: bytes read whatever the context. flops: of each row, attention aside.

    per_token: bytes of keys and values that are read for each token held.
    """

    weights: float
    per_token: float
    flops: float


def footprint(pair: Pair) -> Footprint:
    """From the target's configuration and the precision it runs in; an embedding that is not the head is not read."""
    from specdemo.models.memory import cache_bytes

    config = pair.loaded.model.config.get_text_config(decoder=True)
    head = config.vocab_size * config.hidden_size
    body = pair.loaded.parameters - head * (1 if config.tie_word_embeddings else 2)
    rows = rows_dtype(pair)
    outer = rows.itemsize if pair.target_precision.quantised else SIZES[pair.target_precision]
    per_token = cache_bytes(config, rows, tokens=1)
    return Footprint(body * SIZES[pair.target_precision] + head * outer, per_token, 2.0 * (body + head))


def rows_dtype(pair: Pair) -> torch.dtype:
    """Of activations, keys and values."""
    from specdemo.models.precision import compute_dtype

    inner = getattr(pair.target, "runner", pair.target)  # within equal shapes
    return getattr(inner, "dtype", None) or compute_dtype(pair.target_precision, pair.target.device)


@dataclass(frozen=True, slots=True)
class Roof:
    """Shares of the two ceilings that a step of these seconds reaches."""

    memory: float
    arithmetic: float

    @property
    def bound(self) -> Bound:
        """The nearer ceiling, where it is near."""
        if max(self.memory, self.arithmetic) < BUSY:
            return Bound.OVERHEAD
        return Bound.MEMORY if self.memory >= self.arithmetic else Bound.ARITHMETIC


def roof(of: Footprint, held: float, seconds: float, bytes_per_second: float, flops_per_second: float) -> Roof:
    """A plain step over `held` tokens that takes so long."""
    read = of.weights + of.per_token * held
    return Roof(read / seconds / bytes_per_second, of.flops / seconds / flops_per_second)
