"""Which draft length writes the most tokens a second, by what this very run has shown of acceptance and of costs?"""

from __future__ import annotations

from collections import deque
from math import prod
from operator import mul
from statistics import median_low

from specdemo.decoding.policy import Policy
from specdemo.decoding.steps import Step, Verdict, Why


class _Costs:
    """Seconds of a step that drafts k tokens, v(k) + c k and what is around them, as this run has measured them.

    Medians of the last times. v is interpolated between the k that were tried, and taken as flat beyond: a longer draft
    that then turns out dear has been tried once. A draft's own time counts only behind a step that was asked for one,
    too: the first one after a pause also pays for what the drafter has missed.
    """

    MEMORY = 7

    def __init__(self) -> None:
        self._verify: dict[int, deque[float]] = {}  # by tokens drafted; with everything around
        self._draft: deque[float] = deque(maxlen=self.MEMORY)  # of one drafted token
        self._commit = 0.0  # what the drafter takes in a step that drafts nothing
        self._asked = False

    @property
    def plain_known(self) -> bool:
        """Whether a plain step was timed."""
        return 0 in self._verify

    def learn(self, step: Step) -> None:
        k = len(step.drafted)
        times = self._verify.setdefault(k, deque(maxlen=self.MEMORY))
        times.append(step.verify_seconds + step.other_seconds)
        if not k:
            self._commit = step.draft_seconds
        elif self._asked or not self._draft:
            self._draft.append(max(step.draft_seconds - self._commit, 0.0) / k)
        self._asked = step.gamma > 0

    def seconds(self, longest: int) -> list[float] | None:
        """For k = 0 .. longest; None before the first draft."""
        if not self._draft:
            return None
        tried = {k for k, times in self._verify.items() if k and len(times) > 1}
        tried = sorted(tried or self._verify.keys() - {0})  # one time alone may be an accident: it is tried again
        v = [median_low(self._verify[0] if self.plain_known else self._verify[tried[0]])]
        for k in tried:
            low, high, below = v[-1], median_low(self._verify[k]), len(v) - 1
            v += [low + (high - low) * i / (k - below) for i in range(1, k - below + 1)]
        v += v[-1:] * (longest + 1 - len(v))
        for k in reversed(range(longest)):
            v[k] = min(v[k], v[k + 1])  # a shorter one never costs more
        c = median_low(self._draft)
        return [v[k] + self._commit + c * k for k in range(longest + 1)]


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
        prior = [alpha + 0.3 for alpha in self.GRID]  # leans to acceptance: what is not tried is not learnt
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


class CostOptimal(Policy):
    """The γ with the most tokens a second: E(γ) over the cost of such a step, both as this very run has shown them.

    Goes to 0 where no draft pays, and then drafts now and then to see whether that still holds, ever more seldom while
    it does. Where a drafter often finds nothing, which costs a plain step whatever γ is, both kinds of steps count.
    """

    FIRST = 4  # drafted before anything is known
    SURELY = 4.0  # tokens a step that pay for a draft whatever a plain step costs
    RETIME = 128  # steps after which a plain step is timed again
    WAIT, LONGEST_WAIT = 8, 128  # plain steps before a probe, twice as many before each next one
    PROBE = 2  # steps of a probe: the first one pays for what the drafter missed

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._costs, self._acceptance = _Costs(), _Acceptance(longest)
        self._found = 1.0  # share of the asked steps that drafted
        self._since_plain = 0
        self._wait, self._plain, self._probes = self.WAIT, 0, 0

    def next(self) -> int:
        seconds, expected = self._costs.seconds(self.longest), self._acceptance.expected()
        self.why = Why.POLICY
        if seconds is None:
            return min(self.FIRST, self.longest)
        best = self._best(seconds, expected, shortest=0 if self._costs.plain_known else 1)
        if not best:
            return self._plain_or_probe(self._best(seconds, expected, shortest=1))
        self._wait, self._plain, self._probes = self.WAIT, 0, 0
        stale = not self._costs.plain_known or self._since_plain >= self.RETIME
        if stale and expected[best] < self.SURELY:
            self.why = Why.CALIBRATION
            return 0
        return best

    def _plain_or_probe(self, probe: int) -> int:
        if not self._probes and self._plain >= self._wait:
            self._probes, self._plain = self.PROBE, 0
            self._wait = min(2 * self._wait, self.LONGEST_WAIT)
        if self._probes:
            self._probes -= 1
            self.why = Why.PROBE
            return probe
        self._plain += 1
        self.why = Why.DOES_NOT_PAY
        return 0

    def _best(self, seconds: list[float], expected: list[float], shortest: int) -> int:
        found = self._found

        def tokens_a_second(gamma: int) -> float:
            return (1 + found * (expected[gamma] - 1)) / (seconds[0] + found * (seconds[gamma] - seconds[0]))

        return max(range(shortest, self.longest + 1), key=tokens_a_second)

    def learn(self, step: Step) -> None:
        self._costs.learn(step)
        self._acceptance.learn(step)
        self._since_plain = self._since_plain + 1 if step.drafted else 0
        if step.gamma:
            self._found += 0.05 * (bool(step.drafted) - self._found)
