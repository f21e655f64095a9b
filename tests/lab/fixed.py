"""A pair of two models that say the same after everything, so that every figure of their distributions is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specdemo.decoding.draft_length import Levels
from specdemo.drafters.model import ModelDrafter
from tests.lab.worlds import Tokenizer
from tests.tables import ChainRunner, Tables

P = torch.tensor([0.05, 0.05, 0.1, 0.1, 0.2, 0.2, 0.3])
Q = torch.tensor([0.15, 0.05, 0.2, 0.1, 0.1, 0.2, 0.2])
TV = 0.2


def always(p: torch.Tensor) -> ChainRunner:
    """A model that says the same after everything."""
    return ChainRunner(Tables((p.log()[None], p.log().expand(len(p), -1))))


@dataclass
class Fixed:
    """Target p, draft q."""

    facts: dict[str, str] = field(default_factory=dict)
    context: int = 1 << 16
    eos_ids: frozenset[int] = frozenset()
    bits_promised: bool = True
    padding: float = 1.0
    levels: Levels = field(default_factory=Levels)
    calibration: None = None

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer()
        self.target, self.target_twin = always(P), always(P)
        self.drafter = ModelDrafter(always(Q))
