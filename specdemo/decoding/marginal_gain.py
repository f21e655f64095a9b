"""Is one more drafted token worth what it costs? A chain as long as each of its tokens pays for itself."""

from __future__ import annotations

from torch import Tensor

from specdemo.decoding.round_costs import Calibration
from specdemo.decoding.steps import Step, Verdict, Why
from specdemo.decoding.weighing import Weighing


class MarginalGain(Weighing):
    """Drafts while a further token adds more tokens a second than the run writes anyway, up to `longest`.

    A token brings the chance that it and all before it in the chain are accepted; it costs one row more of the
    verification and one draft step more. Tokens over seconds are largest where the next token's ratio falls to that of
    the whole (Charnov 1976's marginal value theorem). The chance is the drafter's own: the probability of its likeliest
    token, held against what became of such tokens in this run, or the record of the match that a copy comes from.
    Where rounds that may draft write less than plain ones would, they pause (see Pause): of a draft model, even to look
    at its first token costs a step.
    """

    FORESEEN, PROBED = 8, 2  # rounds that what is foreseen weighs, and a probe that paid
    LESS = 0.97  # of what plain rounds would write: rounds that draft nothing write as much, but for chance

    def __init__(self, longest: int, calibration: Calibration | None = None) -> None:
        super().__init__(longest, calibration)
        self._chances = _Chances()
        self._rate = _Rate(*self._foreseen(), self.FORESEEN)

    def _foreseen(self) -> tuple[float, float]:
        """Tokens and cost of a round of the best length, were all tokens alike."""
        costs, expected, reached = self._costs.rounds(), [1.0], 1.0
        for _ in range(self.longest):
            reached *= self._chances.mean
            expected.append(expected[-1] + reached)
        return max(zip(expected, costs, strict=True), key=lambda round_: round_[0] / round_[1])

    def _begin(self) -> None:
        super()._begin()
        self._reached = 1.0  # chance that all tokens of the chain so far are accepted
        self._length = 0
        self._confidences: list[float] = []  # of the tokens that the drafter had a distribution for

    def paying(self) -> int:
        return self.longest if self._rate.tokens_a_second >= self.LESS / self._costs.rounds()[0] else 0

    def probing(self) -> int:
        return self.longest

    def unsure(self, logits: Tensor) -> bool:
        confidence = logits.float().softmax(-1).amax().item()
        if confidence != confidence:
            return False  # what is no number is a fault, and not a short draft
        self._confidences.append(confidence)
        takes = self._takes(self._chances.of(confidence))
        if not takes:
            self._chances.fade(confidence)
        return not takes

    def goes_on(self) -> bool:
        """By the chance of tokens in general: this one's is not known before the draft step has been run."""
        goes_on = self._worth(self._reached * self._chances.mean, self._costs.draft_step)
        self._draft_steps += goes_on
        return goes_on

    def pays(self, alpha: float) -> bool:
        return super().pays(alpha) and self._takes(alpha)

    def _takes(self, alpha: float) -> bool:
        takes = self._worth(self._reached * alpha, draft=0.0)  # its draft step, if there was one, has been paid
        if takes:
            self._reached, self._length = self._reached * alpha, self._length + 1
        return takes

    def _worth(self, reached: float, draft: float) -> bool:
        costs = self._costs.verification
        return reached >= (costs[self._length + 1] - costs[self._length] + draft) * self._rate.tokens_a_second

    def learn(self, step: Step) -> None:
        super().learn(step)
        if step.gamma:
            self._learn_rate(len(step.tokens), step.seconds / self._costs.pace)
        judged = step.drafted[: step.judged]
        for drafted, confidence in zip(judged, self._confidences, strict=False):
            self._chances.learn(confidence, drafted.verdict is Verdict.ACCEPTED)

    def _learn_rate(self, tokens: int, seconds: float) -> None:
        if self.why is Why.PROBE and tokens * self._costs.rounds()[0] > seconds:
            self._rate = _Rate(tokens, seconds, self.PROBED)  # the text has changed
        else:
            self._rate.learn(tokens, seconds)


class _Chances:
    """How often drafts of a confidence were accepted in this run; where few were judged, as often as they promised."""

    BINS = 8
    PROMISED = 8.0  # judged drafts that a promise weighs
    KEPT = 0.99  # of what is known, each time

    def __init__(self) -> None:
        self._bins = [self._promise((i + 0.5) / self.BINS) for i in range(self.BINS)]
        self._all = self._promise(0.5)

    def _promise(self, alpha: float) -> tuple[float, float]:
        """Accepted and judged."""
        return self.PROMISED * alpha, self.PROMISED

    def _bin(self, confidence: float) -> int:
        return min(int(confidence * self.BINS), self.BINS - 1)

    def of(self, confidence: float) -> float:
        """Chance of acceptance."""
        accepted, judged = self._bins[self._bin(confidence)]
        return accepted / judged

    @property
    def mean(self) -> float:
        """Of a draft whose confidence is not known yet."""
        accepted, judged = self._all
        return accepted / judged

    def learn(self, confidence: float, accepted: bool) -> None:
        """What became of one."""
        self.fade(confidence)
        i = self._bin(confidence)
        (held, judged), (held_of_all, judged_of_all) = self._bins[i], self._faded(self._all, 0.5)
        self._bins[i] = held + accepted, judged + 1
        self._all = held_of_all + accepted, judged_of_all + 1

    def fade(self, confidence: float) -> None:
        """What is known of its like grows old, tried or not: else an unlucky few would be the last ones tried."""
        i = self._bin(confidence)
        self._bins[i] = self._faded(self._bins[i], (i + 0.5) / self.BINS)

    def _faded(self, record: tuple[float, float], promised: float) -> tuple[float, float]:
        kept = self.KEPT
        accepted, judged = (kept * a + (1 - kept) * b for a, b in zip(record, self._promise(promised), strict=True))
        return accepted, judged


class _Rate:
    """Tokens a second over the last rounds that might draft, from so many rounds on that are taken for granted."""

    KEPT = 0.98

    def __init__(self, tokens: float, seconds: float, rounds: int) -> None:
        self._tokens, self._seconds = rounds * tokens, rounds * seconds

    @property
    def tokens_a_second(self) -> float:
        return self._tokens / self._seconds

    def learn(self, tokens: int, seconds: float) -> None:
        """One round more."""
        self._tokens = self.KEPT * self._tokens + tokens
        self._seconds = self.KEPT * self._seconds + seconds
