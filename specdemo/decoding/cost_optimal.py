"""Which draft length writes the most tokens a second, by what this very run has shown of acceptance and of costs?"""

from __future__ import annotations

from math import prod
from operator import mul

from specdemo.decoding.round_costs import Calibration
from specdemo.decoding.steps import Step, Verdict
from specdemo.decoding.weighing import Weighing


class _Acceptance:
    """Acceptance at each position, given that those before it were accepted: a level, and a shape over the positions.

    The level, one α for all positions, may turn over within a step or two, as the text does: it is a posterior over a
    grid, and a part of it starts anew with every step. The shape, a position's odds over the level's, is what the
    drafter is like, and moves slowly; a position that was seldom judged has the shape of the one before it.
    """

    GRID = tuple((i + 0.5) / 12 for i in range(12))
    ANEW = 0.01  # of the level, each step
    WEIGHT = 2.0  # of the position before, in judged drafts
    KEPT = 0.99  # of what is known of the shape, each step

    def __init__(self, longest: int) -> None:
        prior = [alpha * (1 - alpha) for alpha in self.GRID]  # neither all nor nothing
        self._prior = [weight / sum(prior) for weight in prior]
        self._level = self._prior
        self._seen = [(0.0, 0.0)] * longest  # accepted and refused at each position,
        self._foreseen = [(0.0, 0.0)] * longest  # and as the level alone had it

    def learn(self, step: Step) -> None:
        if not step.drafted:
            if not step.gamma:  # nobody looks, and the text goes on
                self._start_anew(self._level)
            return
        passed = [drafted.verdict is Verdict.ACCEPTED for drafted in step.drafted[: step.judged]]
        shape = self._shape()
        alpha = sum(map(mul, self.GRID, self._level))
        level = []
        for weight, a in zip(self._level, self.GRID, strict=True):
            rates = [a * odds / (a * odds + 1 - a) for odds in shape[: len(passed)]]
            level.append(weight * prod(rate if yes else 1 - rate for rate, yes in zip(rates, passed, strict=True)))
        self._start_anew(level)
        kept = self.KEPT
        self._seen = [(kept * yes, kept * no) for yes, no in self._seen]
        self._foreseen = [(kept * yes, kept * no) for yes, no in self._foreseen]
        for i, yes in enumerate(passed):
            accepted, refused = self._seen[i]
            self._seen[i] = (accepted + yes, refused + (not yes))
            accepted, refused = self._foreseen[i]
            self._foreseen[i] = (accepted + alpha, refused + 1 - alpha)

    def _start_anew(self, level: list[float]) -> None:
        whole, new = sum(level), self.ANEW
        self._level = [(1 - new) * weight / whole + new * p for weight, p in zip(level, self._prior, strict=True)]

    def expected(self) -> list[float]:
        """E(γ) for γ = 0 .. longest: 1 + a1 + a1 a2 + ..., over all levels."""
        shape = self._shape()
        expected = [1.0] * (len(shape) + 1)
        for weight, a in zip(self._level, self.GRID, strict=True):
            reached, total = weight, 0.0
            for i, odds in enumerate(shape, start=1):
                reached *= a * odds / (a * odds + 1 - a)
                total += reached
                expected[i] += total
        return expected

    def _shape(self) -> list[float]:
        shape, odds, w = [], 1.0, self.WEIGHT
        for (accepted, refused), (foreseen, unforeseen) in zip(self._seen, self._foreseen, strict=True):
            odds = (accepted + w * odds) / (foreseen + w) * (unforeseen + w) / (refused + w)
            shape.append(odds)
        return shape


class CostOptimal(Weighing):
    """The γ with the most tokens a second: E(γ) over the cost of such a step, acceptance as this very run has shown it.

    Asked before the round, so that the device is not waited for; see marginal_gain.py for one that looks at each token.
    Goes to 0 where no draft pays (see Pause). Where a drafter often finds nothing, which costs a plain step whatever γ
    is, both kinds of steps count.
    """

    def __init__(self, longest: int, calibration: Calibration | None = None) -> None:
        super().__init__(longest, calibration)
        self._acceptance = _Acceptance(longest)
        self._found = 1.0  # share of the asked steps that drafted

    def paying(self) -> int:
        return self._best(shortest=0)

    def probing(self) -> int:
        return self._best(shortest=1)

    def _best(self, shortest: int) -> int:
        costs, expected, found = self._costs.rounds(), self._acceptance.expected(), self._found

        def rate(gamma: int) -> float:
            return (1 + found * (expected[gamma] - 1)) / (costs[0] + found * (costs[gamma] - costs[0]))

        return max(range(shortest, self.longest + 1), key=rate)

    def learn(self, step: Step) -> None:
        super().learn(step)
        self._acceptance.learn(step)
        if step.gamma:
            self._found += 0.05 * (bool(step.drafted) - self._found)
