"""The cost model: what a speculative step is expected to write, and what speedup that is worth.

Leviathan et al. 2023 (arXiv 2211.17192), with the costs a real engine has: verification is not free, and neither is
what surrounds it. All costs are in plain steps of the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def expected_tokens(alpha: float, gamma: int) -> float:
    """E = (1 - α^(γ+1)) / (1 - α): tokens a step emits when every draft is accepted with probability α (0 to 1)."""
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"α must lie between 0 and 1 and γ must not be negative, not {alpha} and {gamma}.")
    return sum(alpha**i for i in range(gamma + 1))  # the same sum, without the 0/0 at α = 1


def expected_tokens_by_position(conditional: Sequence[float], gamma: int) -> float:
    """E from the conditional acceptance at each position; past the last known one its rate goes on.

    1 + a1 + a1 a2 + ...: the α form with the rates that were really seen.
    """
    total = reached = 1.0
    for position in range(gamma if conditional else 0):
        reached *= conditional[min(position, len(conditional) - 1)]
        total += reached
    return total


def predicted_speedup(expected: float, gamma: int, *, c: float, v: float = 1.0, o: float = 0.0) -> float:
    """E / (v + cγ + o). c: one drafted token; v: verification of γ+1 tokens; o: the rest of a round."""
    return expected / step_cost(gamma, c=c, v=v, o=o)


def textbook_speedup(alpha: float, gamma: int, c: float) -> float:
    """E / (1 + cγ): verification as cheap as a plain step, nothing around it."""
    return predicted_speedup(expected_tokens(alpha, gamma), gamma, c=c)


def step_cost(gamma: int, *, c: float, v: float = 1.0, o: float = 0.0) -> float:
    """v + cγ + o: a speculative step in plain steps, and so the tokens per pass it must write to break even."""
    return v + c * gamma + o


def best_gamma(
    alpha: float, c: float, *, v: Callable[[int], float] = lambda gamma: 1.0, o: float = 0.0, largest: int = 16
) -> tuple[int, float]:
    """The draft length with the highest predicted speedup, and that speedup; (0, 1.0) where no draft pays.

    v(γ) is the cost of verifying γ+1 tokens. γ = 0 is plain decoding: it pays neither o nor c.
    """
    best = (0, 1.0)
    for gamma in range(1, largest + 1):
        speedup = predicted_speedup(expected_tokens(alpha, gamma), gamma, c=c, v=v(gamma), o=o)
        if speedup > best[1]:
            best = (gamma, speedup)
    return best
