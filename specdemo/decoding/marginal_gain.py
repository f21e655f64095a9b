"""Is one more drafted token worth what it costs? A chain as long as each of its tokens pays for itself."""

from __future__ import annotations

from collections import deque
from statistics import median_low

from torch import Tensor

from specdemo.decoding.policy import Policy
from specdemo.decoding.steps import Step, Verdict


class MarginalGain(Policy):
    """Drafts while a further token adds more tokens a second than the run writes anyway, up to `longest`.

    A token brings the chance that it and all before it in the chain are accepted; it costs one row more of the
    verification and one draft step more. Tokens over seconds are largest where the next token's ratio falls to that of
    the whole (Charnov 1976's marginal value theorem). The chance is the drafter's own: the probability of its likeliest
    token, held against what became of such tokens in this run, or the record of the match that a copy comes from.
    """

    FIRST = 3  # drafted before any costs are known

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._costs = _Costs()
        self._chances = _Chances()
        self._rate = _Rate()
        self._begin()

    def _begin(self) -> None:
        self._reached = 1.0  # chance that all tokens of the chain so far are accepted
        self._length = 0
        self._draft_steps = 0  # beyond the one that comes with the round before
        self._confidences: list[float] = []  # of the tokens that the drafter had a distribution for

    def next(self) -> int:
        self._begin()
        return self.longest

    def unsure(self, logits: Tensor) -> bool:
        confidence = logits.float().softmax(-1).amax().item()
        if confidence != confidence:
            return False  # what is no number is a fault, and not a short draft
        self._confidences.append(confidence)
        return not self.pays(self._chances.of(confidence))

    def goes_on(self) -> bool:
        """By the chance of tokens in general: this one's is not known before the draft step has been run."""
        goes_on = self._worth(self._reached * self._chances.mean, self._costs.draft)
        self._draft_steps += goes_on
        return goes_on

    def pays(self, alpha: float) -> bool:
        pays = self._worth(self._reached * alpha, draft=0.0)  # its draft step, if there was one, has been paid
        if pays:
            self._reached, self._length = self._reached * alpha, self._length + 1
        return pays

    def _worth(self, reached: float, draft: float | None) -> bool:
        if draft is None or not self._costs.known:
            return self._length < self.FIRST
        return reached >= (self._costs.row(self._length) + draft) * self._rate.tokens_a_second

    def learn(self, step: Step) -> None:
        self._costs.learn(step, self._draft_steps)
        self._rate.learn(step)
        judged = step.drafted[: step.judged]
        for drafted, confidence in zip(judged, self._confidences, strict=False):
            self._chances.learn(confidence, drafted.verdict is Verdict.ACCEPTED)


class _Costs:
    """Seconds that one row more of a verification takes, and one draft step more: medians of this run's last times.

    Between lengths that were tried, costs are interpolated, and beyond them they rise as they did so far. A shorter
    verification never costs more.
    """

    MEMORY = 9
    UNKNOWN = 0.03  # of the verification, a row's cost where nothing has shown it

    def __init__(self) -> None:
        self._verify: dict[int, deque[float]] = {}  # by tokens drafted; with everything around
        self._by_length: dict[int, float] = {}  # a verification's, asked for at every token and made at every step
        self._draft: deque[float] = deque(maxlen=self.MEMORY)
        self._commit: deque[float] = deque(maxlen=self.MEMORY)  # of drafters in steps without one

    @property
    def known(self) -> bool:
        """Whether a draft was verified yet."""
        return any(self._verify)

    @property
    def draft(self) -> float | None:
        """Of a draft step; None before the first."""
        return median_low(self._draft) if self._draft else None

    def learn(self, step: Step, draft_steps: int) -> None:
        times = self._verify.setdefault(len(step.drafted), deque(maxlen=self.MEMORY))
        times.append(step.verify_seconds + step.other_seconds)
        least = float("inf")
        for length in sorted(self._verify, reverse=True):
            self._by_length[length] = least = min(least, median_low(self._verify[length]))
        if draft_steps:
            self._draft.append(max(step.draft_seconds - median_low(self._commit or [0.0]), 0.0) / draft_steps)
        else:
            self._commit.append(step.draft_seconds)

    def row(self, k: int) -> float:
        """Of a verification of k + 1 drafted tokens over one of k."""
        costs = self._by_length
        below = max((length for length in costs if length <= k), default=None)
        above = min((length for length in costs if length > k), default=None)
        if below is not None and above is not None:
            return (costs[above] - costs[below]) / (above - below)
        shortest, longest = min(costs), max(costs)
        rise = costs[longest] - costs[shortest]
        return rise / (longest - shortest) if rise else self.UNKNOWN * costs[longest]


class _Chances:
    """How often drafts of a confidence were accepted in this run; where few were judged, as often as they promised."""

    BINS = 8
    PROMISED = 4.0  # judged drafts that a promise weighs
    KEPT = 0.99  # of what is known, each time

    def __init__(self) -> None:
        self._bins = [[self.PROMISED * (i + 0.5) / self.BINS, self.PROMISED] for i in range(self.BINS)]

    def _bin(self, confidence: float) -> int:
        return min(int(confidence * self.BINS), self.BINS - 1)

    def of(self, confidence: float) -> float:
        """Chance of acceptance."""
        held, judged = self._bins[self._bin(confidence)]
        return held / judged

    @property
    def mean(self) -> float:
        """Of a draft whose confidence is not known yet: of all that were judged, a half before any was."""
        return sum(held for held, _ in self._bins) / sum(judged for _, judged in self._bins)

    def learn(self, confidence: float, accepted: bool) -> None:
        """What became of one."""
        i = self._bin(confidence)
        (held, judged), promise = self._bins[i], self.PROMISED * (i + 0.5) / self.BINS
        kept = self.KEPT
        self._bins[i] = [
            kept * held + (1 - kept) * promise + accepted,
            kept * judged + (1 - kept) * self.PROMISED + 1,
        ]


class _Rate:
    """Tokens a second over the last steps."""

    KEPT = 0.98

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0

    @property
    def tokens_a_second(self) -> float:
        """0 before the first step."""
        return self._tokens / self._seconds if self._seconds else 0.0

    def learn(self, step: Step) -> None:
        """A step's tokens and its own time."""
        self._tokens = self.KEPT * self._tokens + len(step.tokens)
        self._seconds = self.KEPT * self._seconds + step.seconds
