"""The draft-length policies by name, and the rules of thumb among them (see policy.py for what a policy may know)."""

from __future__ import annotations

from collections import deque
from statistics import median_low

import torch
from torch import Tensor

from specdemo.decoding.cost_optimal import CostOptimal
from specdemo.decoding.marginal_gain import MarginalGain
from specdemo.decoding.policy import Fixed, Policy
from specdemo.decoding.round_costs import Calibration
from specdemo.decoding.steps import DraftLength, Step, Why
from specdemo.decoding.weighing import Weighing

START = 5  # what a policy that moves begins with, unless its bound is lower


class _Window:
    """Accepted / drafted over the last n steps that drafted; None while there are fewer."""

    def __init__(self, n: int) -> None:
        self._steps: deque[tuple[int, int]] = deque(maxlen=n)

    def add(self, step: Step) -> None:
        if step.drafted:
            self._steps.append((step.accepted, len(step.drafted)))

    def clear(self) -> None:
        self._steps.clear()

    @property
    def full(self) -> bool:
        return len(self._steps) == self._steps.maxlen

    @property
    def acceptance(self) -> float | None:
        drafted = sum(k for _, k in self._steps)
        return sum(n for n, _ in self._steps) / drafted if drafted else None


class Additive(Policy):
    """One more where ten steps accepted over 0.8 of their drafts, one less where they accepted under 0.5.

    A change empties the window: the next one answers to ten steps of the new length. From 1 to `longest`.
    """

    def __init__(self, longest: int) -> None:
        self.longest, self.gamma = longest, min(START, longest)
        self._window = _Window(10)

    def next(self) -> int:
        return self.gamma

    def learn(self, step: Step) -> None:
        self._window.add(step)
        if not self._window.full:
            return
        rate = self._window.acceptance
        gamma = self.gamma + (rate > 0.8) - (rate < 0.5)
        gamma = max(1, min(gamma, self.longest))
        if gamma != self.gamma:
            self.gamma = gamma
            self._window.clear()


LOW, HIGH = 3, 6


def _level(acceptance: float | None) -> int:
    """Of the two lengths, the one for so much of the drafts accepted; the lower one where nothing is known."""
    return LOW if acceptance is None or acceptance < 0.6 else HIGH


class TwoLevels(Policy):
    """6 where the last ten steps that drafted accepted at least 0.6 of their drafts, else 3; never over `longest`."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._window = _Window(10)

    def next(self) -> int:
        return min(_level(self._window.acceptance), self._longest)

    def learn(self, step: Step) -> None:
        self._window.add(step)


class Levels:
    """What one run's drafts say about the next run's: the state of the two levels across runs.

    The level begins low and is set anew after every `every` requests, by what these accepted / drafted; one that
    drafted nothing counts and says nothing, one that was broken off does not count. The state belongs to a pair, so
    that another drafter begins anew, and so does whoever resets it.
    """

    EVERY = 5

    def __init__(self, every: int = EVERY) -> None:
        self.every = every
        self.reset()

    def reset(self) -> None:
        """As before the first request."""
        self.level = LOW
        self._begin()

    def _begin(self) -> None:
        self.requests = self.accepted = self.drafted = 0  # since the level was set

    def end(self, accepted: int, drafted: int) -> None:
        """One more request has come to its end, with so many drafted tokens."""
        self.requests += 1
        self.accepted += accepted
        self.drafted += drafted
        if self.requests == self.every:
            if self.drafted:
                self.level = _level(self.accepted / self.drafted)
            self._begin()


class AcrossRuns(Policy):
    """The level of `levels` for the whole run, never over `longest`; the run's end is told to them."""

    def __init__(self, longest: int, levels: Levels) -> None:
        self.gamma = min(levels.level, longest)
        self._levels = levels
        self._accepted = self._drafted = 0

    def next(self) -> int:
        return self.gamma

    def learn(self, step: Step) -> None:
        self._accepted += step.accepted
        self._drafted += len(step.drafted)
        if step.stop:
            self._levels.end(self._accepted, self._drafted)


class Heuristic(Policy):
    """Two more after a step whose drafts were all accepted, else one less: transformers' schedule ("heuristic").

    From 1 to `longest`; a step that drafted nothing says nothing.
    """

    def __init__(self, longest: int) -> None:
        self.longest, self.gamma = longest, min(START, longest)

    def next(self) -> int:
        return self.gamma

    def learn(self, step: Step) -> None:
        if step.drafted:
            move = 2 if step.accepted == len(step.drafted) else -1
            self.gamma = max(1, min(self.gamma + move, self.longest))


class Confidence(Fixed):
    """Up to γ; the chain ends where the drafter's likeliest next token has a probability under `least`.

    The distribution is the drafter's own, before temperature and truncation, so that greedy drafting can stop, too
    (0.4: transformers' assistant_confidence_threshold, which looks at the drawn token and stops behind it).
    A drafter without one (n-gram lookup) never stops.
    """

    def __init__(self, gamma: int, least: float = 0.4) -> None:
        super().__init__(gamma)
        self.least = least

    def unsure(self, logits: Tensor) -> bool:
        return bool(logits.float().softmax(-1).amax() < self.least)


class Entropy(Fixed):
    """As Confidence; the chain ends where the entropy of that distribution is over `most` (in nats)."""

    def __init__(self, gamma: int, most: float = 2.0) -> None:
        super().__init__(gamma)
        self.most = most

    def unsure(self, logits: Tensor) -> bool:
        return bool(torch.special.entr(logits.float().softmax(-1)).sum() > self.most)


class Intervals(Fixed):
    """γ, and one plain step after every `every` tokens: for long texts, where it shows anew what a plain step costs."""

    def __init__(self, gamma: int, every: int = 64) -> None:
        super().__init__(gamma)
        self.every = every
        self._tokens = 0

    def next(self) -> int:
        due = self._tokens >= self.every
        self.why = Why.INTERVAL if due else Why.POLICY
        if due:
            self._tokens = 0
        return 0 if due else self.gamma

    def learn(self, step: Step) -> None:
        self._tokens += len(step.tokens)


class Fallback(Fixed):
    """γ until drafts have not paid for long enough, then plain decoding to the end of the run, which is told (Why).

    They do not pay where the last twenty steps that drafted, at what they cost, gave fewer tokens than plain ones would
    have; what a plain step costs is the median of all that were taken, three of them on purpose.
    """

    ENOUGH = 20  # steps that drafted
    CALIBRATIONS = 3

    def __init__(self, gamma: int) -> None:
        super().__init__(gamma)
        self._steps: deque[tuple[int, float]] = deque(maxlen=self.ENOUGH)
        self._plain: list[float] = []

    @property
    def predicted_speedup(self) -> float | None:
        """E / (v + c γ + o) as those steps have shown it; None before there are enough."""
        if len(self._steps) < self.ENOUGH or not self._plain:
            return None
        tokens = sum(n for n, _ in self._steps) / len(self._steps)
        return tokens * median_low(self._plain) / median_low(seconds for _, seconds in self._steps)

    def next(self) -> int:
        if self.drafts and self._pays_no_more():
            self.drafts = False
            self.why = Why.FALLBACK
        if not self.drafts:
            return 0
        due = len(self._plain) < self.CALIBRATIONS and len(self._steps) > 4 * len(self._plain)
        self.why = Why.CALIBRATION if due else Why.POLICY
        return 0 if due else self.gamma

    def _pays_no_more(self) -> bool:
        speedup = self.predicted_speedup
        return speedup is not None and speedup < 1

    def learn(self, step: Step) -> None:
        if step.drafted:
            self._steps.append((step.accepted + 1, step.seconds))
        elif self.drafts:
            self._plain.append(step.seconds)


class AcceptanceFallback(Fixed):
    """γ until the last twenty steps that drafted accepted under 0.4 of their drafts, then plain decoding to the end.

    The rule of thumb: it asks for no costs, and so gives up cheap drafts that pay, and keeps dear ones that do not.
    """

    ENOUGH, LEAST = 20, 0.4

    def __init__(self, gamma: int) -> None:
        super().__init__(gamma)
        self._window = _Window(self.ENOUGH)

    def next(self) -> int:
        if self.drafts and self._window.full and self._window.acceptance < self.LEAST:
            self.drafts = False
            self.why = Why.FALLBACK
        return self.gamma if self.drafts else 0

    def learn(self, step: Step) -> None:
        self._window.add(step)


POLICIES: dict[DraftLength, type[Policy]] = {  # those that know one run
    DraftLength.FIXED: Fixed,
    DraftLength.ADDITIVE: Additive,
    DraftLength.TWO_LEVELS: TwoLevels,
    DraftLength.HEURISTIC: Heuristic,
    DraftLength.CONFIDENCE: Confidence,
    DraftLength.ENTROPY: Entropy,
    DraftLength.COST_OPTIMAL: CostOptimal,
    DraftLength.MARGINAL_GAIN: MarginalGain,
    DraftLength.INTERVALS: Intervals,
    DraftLength.FALLBACK: Fallback,
    DraftLength.ACCEPTANCE_FALLBACK: AcceptanceFallback,
}


def policy(
    choice: DraftLength, gamma: int, levels: Levels | None = None, calibration: Calibration | None = None
) -> Policy:
    """A new run's policy. gamma: the draft length, for those that move the longest; 0 is plain decoding under any.

    levels: what the runs before have left, for the one that asks for it; None: there were none. calibration: what the
    pair's rounds take, for those that weigh it; None: nobody has measured.
    """
    if not gamma:
        return Fixed(0)
    if choice is DraftLength.ACROSS_RUNS:
        return AcrossRuns(gamma, levels or Levels())
    made = POLICIES[choice]
    return made(gamma, calibration) if issubclass(made, Weighing) else made(gamma)
