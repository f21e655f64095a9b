"""What `race` asks of a Pair, over a Markov chain; and a model that breaks."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specdemo.decoding.draft_length import Levels
from specdemo.decoding.runner import Output
from specdemo.drafters.model import ModelDrafter
from tests.tables import ChainRunner, Tables

CHAIN = Tables((torch.zeros(1, 5), 2 * torch.randn(5, 5, generator=torch.Generator().manual_seed(0))))


@dataclass
class ToyPair:
    """Of five tokens, with a draft that likes what the target does, less surely."""

    context: int = 64
    eos_ids: frozenset[int] = frozenset()
    tokenizer: object = None
    target: ChainRunner = field(default_factory=lambda: ChainRunner(CHAIN))
    target_twin: ChainRunner = field(default_factory=lambda: ChainRunner(CHAIN))
    drafter: ModelDrafter = field(default_factory=lambda: ModelDrafter(ChainRunner(CHAIN.like(0.7))))
    levels: Levels = field(default_factory=Levels)
    calibration: None = None


class Broken(ChainRunner):
    """Gives what is not a number from its fourth forward on."""

    forwards = 0

    def forward(self, ids: torch.Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        out = super().forward(ids, rows, aux_layers)
        self.forwards += 1
        if self.forwards > 3 and rows:
            out.logits[:] = torch.nan
        return out
