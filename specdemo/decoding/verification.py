"""How the target judges a draft: three rules, each a pure function on tensors with a batch dimension.

Each keeps the output distributed exactly as the target alone would have it; what differs is how often they accept.
Shapes: B sequences, k drafted tokens each, V tokens in the vocabulary. p [B, k + 1, V] and q [B, k, V] are the
distributions really sampled from; drafted [B, k] int64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specdemo.decoding.sampling import race_winner


class Judgement(NamedTuple):
    """accepted [B]: drafted tokens accepted, 0..k. token [B]: the target's own token that follows them.

    draws [B, k]: what each drafted token was judged with: uniform numbers, or the ids the target drew.
    chances [B, k]: what each uniform number had to stay below, where the rule has worked it out. source [B, V]: the
    unnormalised distribution that the token was drawn from, under rejection and block.
    """

    accepted: Tensor
    token: Tensor
    draws: Tensor
    chances: Tensor | None = None
    source: Tensor | None = None


def shared_noise(p: Tensor, drafted: Tensor, noise: Tensor) -> Judgement:
    """Accept while the target, drawing with the noise the drafter drew with, draws the same token.

    noise [B, k + 1, V]: Exp(1), a function of seed and position alone. Every emitted token is then the target's own
    draw, so the text does not depend on the drafter (Daliri, Musco, Suresh 2024, arXiv 2408.07978).
    """
    winners = race_winner(p, noise)  # [B, k + 1]
    accepted = leading(winners[:, :-1] == drafted)
    return Judgement(accepted, _at(winners, accepted), winners[:, :-1])


def rejection(p: Tensor, drafted: Tensor, q: Tensor, uniforms: Tensor, noise: Tensor) -> Judgement:
    """Accept x while u < p(x) / q(x); then draw from max(p - q, 0), or the bonus from p after a full acceptance.

    uniforms [B, k] on [0, 1), noise [B, V]: Exp(1), independent of each other and of the draft (Leviathan, Kalman,
    Matias 2023, algorithm 1; Chen et al. 2023).
    """
    p_x, q_x = chances_of(p[:, :-1], drafted), chances_of(q, drafted)
    accepted = leading(uniforms * q_x < p_x)
    one = torch.ones_like(accepted, dtype=p.dtype)
    source = _source(p, q, accepted, one)
    return Judgement(accepted, race_winner(source, noise), uniforms, source=source)


def block(p: Tensor, drafted: Tensor, q: Tensor, uniforms: Tensor, noise: Tensor) -> Judgement:
    """As rejection, but the longest prefix that passes is accepted: never fewer tokens on average.

    Arguments as `rejection` (Sun et al. 2024, arXiv 2403.10444, algorithm 2). An earlier refusal does not end the
    block, so its noise must be fresh in every round.
    """
    ratio = chances_of(p[:, :-1], drafted) / chances_of(q, drafted)  # [B, k]
    weight = torch.ones_like(ratio[:, :1])  # p_i of the paper, i = 0
    weights = [weight]
    for i in range(drafted.shape[1]):
        weight = (weight * ratio[:, i : i + 1]).clamp(max=1)
        weights.append(weight)
    weight = torch.cat(weights, 1)  # [B, k + 1]
    surplus = (weight[:, 1:-1, None] * p[:, 1:-1] - q[:, 1:]).clamp(min=0).sum(-1)  # [B, k - 1]
    room = surplus + 1 - weight[:, 1:-1]
    # room is 0 only where p = q and nothing was lost before: the prefix passes for certain
    passing = torch.cat([torch.where(room > 0, (surplus / room).clamp(max=1), 1.0), weight[:, -1:]], 1)  # h_1 .. h_k
    passed = uniforms < passing
    lengths = torch.arange(1, drafted.shape[1] + 1, device=drafted.device)
    accepted = (passed * lengths).amax(-1)
    source = _source(p, q, accepted, _at(weight, accepted))
    return Judgement(accepted, race_winner(source, noise), uniforms, passing, source)


def leading(passed: Tensor) -> Tensor:
    """Number [B] of True before the first False in passed [B, k]."""
    return passed.long().cumprod(-1).sum(-1)


def chances_of(distribution: Tensor, ids: Tensor) -> Tensor:
    """Probabilities [..., k] of ids [..., k] under distribution [..., k, V]."""
    return distribution.gather(-1, ids[..., None])[..., 0]


def _at(values: Tensor, position: Tensor) -> Tensor:
    """values [B, n] at position [B]."""
    return values.gather(-1, position[:, None])[:, 0]


def residual(p: Tensor, q: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """What is drawn from in place of a refused token: max(weight p - q, 0) over [..., V], or p where that is 0."""
    left = (weight * p).sub_(q).clamp_(min=0)
    return torch.where(left.sum(-1, keepdim=True) <= 0, p, left)


def without(p: Tensor, token: Tensor) -> Tensor:
    """`residual` of p [V] after a draft that was certain of one token []."""
    left = p.clone()
    left[token] = 0
    return left if left.sum() > 0 else p


def _source(p: Tensor, q: Tensor, accepted: Tensor, weight: Tensor) -> Tensor:
    """Unnormalised [B, V]: the residual where a draft was refused, else p."""
    row = accepted[:, None, None].expand(-1, 1, p.shape[-1])
    p_row = p.gather(1, row)[:, 0]
    q_row = q.gather(1, row.clamp(max=q.shape[1] - 1))[:, 0]
    return torch.where((accepted == q.shape[1])[:, None], p_row, residual(p_row, q_row, weight[:, None]))
