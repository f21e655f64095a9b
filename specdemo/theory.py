"""The cost model: what a speculative step is expected to write, and what speedup that is worth.

Leviathan et al. 2023 (arXiv 2211.17192), with the costs a real engine has: verification is not free, and neither is
what surrounds it. All costs are in plain steps of the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def expected_tokens(alpha: float, gamma: int) -> float:
    """E = (1 - α^(γ+1)) / (1 - α): tokens a step emits when every draft is accepted with probability α (0 to 1)."""
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"α must lie between 0 and 1 and γ must not be negative, not {alpha} and {gamma}.")
    return sum(alpha**i for i in range(gamma + 1))  # the same sum, without the 0/0 at α = 1


def step_cost(gamma: int, *, c: float, v: float = 1.0, o: float = 0.0) -> float:
    """v + cγ + o: a speculative step in plain steps, and so the tokens per pass it must write to break even."""
    return v + c * gamma + o


@dataclass(frozen=True, slots=True)
class CostModel:
    """All that a prediction at another γ takes, as one run measured it or as somebody supposes it.

    alpha: accepted / judged. c: one drafted token. slope: v(γ) = 1 + slope γ. o: the rest of a round. drafts: the share
    of steps in which the drafter proposes anything; a step without a draft is a plain one, and o.
    """

    alpha: float
    c: float
    slope: float = 0.0
    o: float = 0.0
    drafts: float = 1.0

    def tokens(self, gamma: int) -> float:
        """Emitted tokens a step."""
        return self.drafts * expected_tokens(self.alpha, gamma) + 1 - self.drafts

    def cost(self, gamma: int) -> float:
        """Of a step, in plain ones. γ = 0 is plain decoding."""
        if gamma == 0:
            return 1.0
        drafting = step_cost(gamma, c=self.c, v=1 + self.slope * gamma, o=self.o)
        return self.drafts * drafting + (1 - self.drafts) * (1 + self.o)

    def speedup(self, gamma: int) -> float:
        """Predicted. With nothing but alpha and c it is the textbook's E / (1 + cγ)."""
        return self.tokens(gamma) / self.cost(gamma)

    def best(self, largest: int) -> tuple[int, float]:
        """The γ with the highest predicted speedup, the shortest of equals, and that speedup."""
        return max(((gamma, self.speedup(gamma)) for gamma in range(largest + 1)), key=lambda one: (one[1], -one[0]))


def verification_slope(measured: Iterable[tuple[int, int, float]]) -> float:
    """The slope of v(γ) = 1 + slope γ through (drafted tokens, steps, cost of a verification in plain steps).

    Least squares, each step of equal weight; never below 0, which only noise could make it.
    """
    measured = list(measured)
    weight = sum(steps * drafted**2 for drafted, steps, _ in measured)
    return max(0.0, sum(steps * drafted * (v - 1) for drafted, steps, v in measured) / weight) if weight else 0.0


def cost_per_million_tokens(price_per_hour: float, tokens_per_second: float) -> float:
    """What a million tokens cost, one request at a time (batch 1), in the currency of the price."""
    return price_per_hour / 3600 / tokens_per_second * 1e6
