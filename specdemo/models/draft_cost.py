"""What does one drafted token cost on this machine, as a share of a plain step? Measured on the pair as it is loaded.

Fewer bits save memory and seldom time: the measurement stands beside the choice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor

from specdemo.decoding.clock import settle
from specdemo.decoding.drafter import Drafter, FreeDraw
from specdemo.decoding.runner import Runner, prefill
from specdemo.decoding.sampling import argmax

HELD, DRAFTED = 32, 4  # tokens before the measured rounds; tokens of a draft
ROUNDS, SECONDS = 5, 0.6  # as many, or as many as take so long, after one that does not count


@torch.inference_mode()
def draft_cost(target: Runner, drafter: Drafter) -> float | None:
    """Seconds of a drafted token over those of a plain step of the target: c. Both are empty afterwards.

    What the drafter does with a round's outcome counts as drafting, as on the lane's clock. None where the context is
    too short to measure in.
    """
    held = min(HELD, target.max_length // 2, drafter.max_length // 2)
    if held < 2 * DRAFTED:
        return None
    rounds = min(ROUNDS + 1, held // DRAFTED)
    ids = torch.randint(target.vocab_size, (held,), generator=torch.Generator().manual_seed(0)).to(target.device)
    target.begin(2 * held)
    hidden = prefill(target, ids, drafter.aux_layers).hidden
    drafter.begin(ids, int(ids[0]), hidden, 2 * held)
    steps: list[float] = []
    drafts: list[float] = []

    def seconds(begun: float) -> float:
        settle(target.device)
        return time.perf_counter() - begun

    while len(drafts) < rounds and (len(drafts) < 2 or sum(steps) + sum(drafts) < SECONDS):
        begun = time.perf_counter()
        hidden = target.forward(ids[:1], 1, drafter.aux_layers).hidden
        steps.append(seconds(begun))
        target.rewind(held)
        begun = time.perf_counter()
        draft = drafter.propose(DRAFTED, FreeDraw(_greedy))
        drafter.commit([int(ids[0])], 0, hidden)
        drafts.append(seconds(begun) / max(1, len(draft.ids)))
    target.rewind(0)
    drafter.forget()
    return median(drafts[1:] or drafts) / median(steps[1:] or steps)


def _greedy(logits: Tensor, drafted: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return argmax(logits.float()), logits.new_ones(())
