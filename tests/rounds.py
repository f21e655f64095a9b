"""One round of speculation, hundreds of thousands of times at once, over tables (see tables.py).

`run` drafts γ tokens a sequence with the drafter's own noise and lets a rule judge them. What the rule emits is
completed to γ + 1 tokens with draws from the target alone, so that every sequence has the same length: its law must be
the target's joint law of γ + 1 tokens, whatever was accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specdemo.decoding import verification
from specdemo.decoding.sampling import race_winner
from specdemo.decoding.steps import Rule
from specdemo.decoding.verification import Judgement

ROUNDS = 200_000


@dataclass
class Round:
    """What a rule is given. p [B, γ + 1, V], q [B, γ, V], drafted [B, γ], draft_noise [B, γ + 1, V], fresh [B, V]."""

    p: Tensor
    q: Tensor
    drafted: Tensor
    uniforms: Tensor
    draft_noise: Tensor
    fresh: Tensor


Judge = Callable[[Round], Judgement]


def shared_noise(r: Round) -> Judgement:
    return verification.shared_noise(r.p, r.drafted, r.draft_noise)


def rejection(r: Round) -> Judgement:
    return verification.rejection(r.p, r.drafted, r.q, r.uniforms, r.fresh)


def block(r: Round) -> Judgement:
    return verification.block(r.p, r.drafted, r.q, r.uniforms, r.fresh)


JUDGES: dict[Rule, Judge] = {Rule.SHARED_NOISE: shared_noise, Rule.REJECTION: rejection, Rule.BLOCK: block}


@dataclass
class Outcome:
    """sequences [B]: γ + 1 tokens as a number in base V. accepted [B]. drafted [B, γ]."""

    sequences: np.ndarray
    accepted: np.ndarray
    drafted: np.ndarray


def exponential_noise(g: torch.Generator, *shape: int) -> Tensor:
    return torch.empty(shape).exponential_(generator=g)


def run(
    judge: Judge, p_levels: list[Tensor], q_levels: list[Tensor], gamma: int, seed: int = 0, rounds: int = ROUNDS
) -> Outcome:
    """Draft, judge, complete. p_levels[d], q_levels[d]: distributions [V^d, V] after the prefixes of length d."""
    g = torch.Generator().manual_seed(seed)
    vocab = p_levels[0].shape[1]
    noise = exponential_noise(g, rounds, gamma + 1, vocab)
    row = torch.zeros(rounds, dtype=torch.long)
    p, q, drafted = [], [], []
    for depth in range(gamma):
        p.append(p_levels[depth][row])
        q.append(q_levels[depth][row])
        drafted.append(race_winner(q[-1], noise[:, depth]))
        row = row * vocab + drafted[-1]
    p.append(p_levels[gamma][row])
    uniforms, fresh = torch.rand(rounds, gamma, generator=g), exponential_noise(g, rounds, vocab)
    ids = torch.stack(drafted, 1)
    judged = judge(Round(torch.stack(p, 1), torch.stack(q, 1), ids, uniforms, noise, fresh))
    return Outcome(_completed(judged, ids, p_levels, g).numpy(), judged.accepted.numpy(), ids.numpy())


def _completed(judged: Judgement, drafted: Tensor, p_levels: list[Tensor], g: torch.Generator) -> Tensor:
    rounds, gamma = drafted.shape
    vocab = p_levels[0].shape[1]
    row = torch.zeros(rounds, dtype=torch.long)
    for depth in range(gamma + 1):
        below = p_levels[depth].cumsum(-1)[row]  # [B, V]
        token = (below <= torch.rand(rounds, 1, generator=g) * below[:, -1:]).sum(-1).clamp(max=vocab - 1)
        if depth < gamma:
            token = torch.where(depth < judged.accepted, drafted[:, depth], token)
        token = torch.where(depth == judged.accepted, judged.token, token)
        row = row * vocab + token
    return row


def one_hot_levels(levels: list[Tensor]) -> list[Tensor]:
    """A deterministic drafter: all of q on one token, fixed by the prefix."""
    return [torch.zeros_like(level).scatter_(-1, level.argmax(-1, keepdim=True), 1.0) for level in levels]
