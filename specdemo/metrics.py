"""The figures of a lane and of two lanes beside each other: names and definitions once, for page, CLI and bench.

A lane's figures are a fold over its Steps. The first step is the prompt's own (prefill); "after the first" means the
steps behind it. A figure that is not defined yet, or that an engine does not tell, is None: nothing divides by zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from specdemo.decoding.steps import UNTOLD, Origin, Parting, Rule, Step, Stop, Verdict, Why
from specdemo.theory import CostModel, verification_slope

EQUAL_FROM, EQUAL_TO = 0.97, 1.03


class LaneMetrics:
    """One lane's figures, live and final. `add` costs O(drafted) and the properties O(γ), however long the lane is."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.steps = 0
        self.stop: Stop | None = None
        self.drafted = 0  # proposed tokens
        self.accepted = 0
        self.judged = 0  # accepted + refused: a draft behind a refusal is never reached
        self.steps_that_drafted = 0
        self.prefill_seconds: float | None = None  # first step
        self.draft_seconds: float | None = 0.0  # after the first, as are the next two
        self.verify_seconds: float | None = 0.0
        self.other_seconds: float | None = 0.0
        self.time_to_first_token: float | None = None  # on the lane's own clock
        self.tokens_by_origin: Counter[Origin] = Counter()
        self.verifications: dict[
            int, list[float]
        ] = {}  # drafted tokens -> [steps, their verify seconds], after the first
        self.tokens_per_step: Counter[int] = Counter()  # emitted tokens -> steps after the first that emitted so many
        self.steps_without_draft: Counter[Why] = Counter()  # after the first
        self.fell_back_at: int | None = None  # tokens emitted when the draft-length policy gave drafting up
        self._first_step_tokens = 0
        self._accepted_at: list[int] = []
        self._untold = False  # a server gave text without ids

    @classmethod
    def of(cls, steps: Iterable[Step]) -> LaneMetrics:
        """The figures of these steps."""
        metrics = cls()
        for step in steps:
            metrics.add(step)
        return metrics

    def add(self, step: Step) -> None:
        """Fold in the lane's next step."""
        self._untold |= any(token.id == UNTOLD for token in step.tokens)
        if self.steps == 0:
            self.prefill_seconds = step.seconds
            self._first_step_tokens = len(step.tokens)
        else:
            self.draft_seconds = _plus(self.draft_seconds, step.draft_seconds)
            self.verify_seconds = _plus(self.verify_seconds, step.verify_seconds)
            self.other_seconds = _plus(self.other_seconds, step.other_seconds)
            self.tokens_per_step[len(step.tokens)] += not self._untold
            self._add_plain(step)
            verified = self.verifications.setdefault(len(step.drafted), [0, 0.0])
            verified[0] += 1
            verified[1] += step.verify_seconds or 0.0
        self.steps += 1
        if step.tokens and not self.ids:
            self.time_to_first_token = self.seconds
        self.ids.extend(token.id for token in step.tokens)
        self.tokens_by_origin.update(token.origin for token in step.tokens)
        self.stop = step.stop
        self._add_draft(step)

    def _add_plain(self, step: Step) -> None:
        self.steps_without_draft[step.why] += not step.drafted
        if step.why is Why.FALLBACK and self.fell_back_at is None:
            self.fell_back_at = self.tokens

    def _add_draft(self, step: Step) -> None:
        self.drafted += len(step.drafted)
        self.accepted += step.accepted
        self.judged += step.judged
        self.steps_that_drafted += bool(step.drafted)
        self._accepted_at.extend([0] * (len(step.drafted) - len(self._accepted_at)))
        for position, drafted in enumerate(step.drafted):
            self._accepted_at[position] += drafted.verdict is Verdict.ACCEPTED

    @property
    def tokens(self) -> int:
        """Emitted tokens, the first one included; a piece of text without ids is one here."""
        return len(self.ids)

    @property
    def told_tokens(self) -> int | None:
        """The same; None where there is text without ids, of which nobody knows how many tokens it has."""
        return None if self._untold else self.tokens

    @property
    def target_passes(self) -> int:
        """Forward passes of the target after prefill."""
        return max(self.steps - 1, 0)

    @property
    def decode_seconds(self) -> float | None:
        """Clock of the steps after the first: draft + verify + other."""
        return _plus(_plus(self.draft_seconds, self.verify_seconds), self.other_seconds)

    @property
    def seconds(self) -> float | None:
        """The lane's own clock: prefill + decode; 0 before the first step."""
        return _plus(self.prefill_seconds, self.decode_seconds) if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """(emitted - 1) / seconds of the steps after the first: the first token belongs to prefill."""
        return None if self._untold else _ratio(self.decoded, self.decode_seconds)

    @property
    def end_to_end_tokens_per_second(self) -> float | None:
        """Emitted / the whole clock, both models' prefill included."""
        return _ratio(self.told_tokens, self.seconds)

    @property
    def draft_acceptance_rate(self) -> float | None:
        """Accepted / drafted (vLLM's)."""
        return _ratio(self.accepted, self.drafted)

    @property
    def alpha(self) -> float | None:
        """Accepted / judged: the α of the cost model."""
        return _ratio(self.accepted, self.judged)

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted / steps that drafted (vLLM's)."""
        extra = _ratio(self.accepted, self.steps_that_drafted)
        return None if extra is None else 1 + extra

    @property
    def tokens_per_target_pass(self) -> float | None:
        """Emitted after the first / target passes after prefill; 1.00 is plain decoding."""
        return _ratio(self.decoded, self.target_passes) if self.drafts_told else None

    @property
    def drafts_told(self) -> bool:
        """Whether it is known who wrote each token; else steps are a server's chunks, and passes approximate."""
        return not self.tokens_by_origin[Origin.UNKNOWN]

    @property
    def accepted_per_position(self) -> tuple[int, ...]:
        """Accepted at position i, as many positions as the longest draft had."""
        return tuple(self._accepted_at)

    @property
    def acceptance_per_position(self) -> tuple[float, ...]:
        """Accepted at position i / steps that drafted."""
        return tuple(accepted / self.steps_that_drafted for accepted in self._accepted_at)

    @property
    def decoded(self) -> int:
        """Emitted after the first step."""
        return self.tokens - self._first_step_tokens


class Speed(StrEnum):
    """What the speedup comes to, for the sentence above the panes."""

    FASTER = "faster"
    EQUAL = "equal"  # 0.97 to 1.03
    SLOWER = "slower"
    NO_SPECULATION = "no speculation"  # nothing was drafted: a speedup would be one of plain decoding over itself
    FAULT = "fault"  # the texts part, and rounding may not or does not explain it: the speedup does not count


class Sameness(StrEnum):
    """What the two texts are to each other."""

    IDENTICAL = "identical"
    BIT_IDENTICAL = "bit-identical"  # and could not be otherwise: the same bits were promised of both lanes
    ROUNDING_TIE = "rounding tie"
    FAULT = "fault"
    UNEXPLAINED = "unexplained"  # they part, and nobody has measured the logit gap there
    SAME_DISTRIBUTION = "same distribution"  # identical words are not promised


@dataclass(frozen=True, slots=True)
class Comparison:
    """The speculative lane beside the baseline: the numbers that a verdict is written from.

    identity_promised: the same words. bits_promised: also the same bits, so that no difference is excused as rounding.
    compared: tokens that both lanes have emitted. parting: the logit gap at the first difference, where measured.
    """

    speedup: float | None  # decode: tokens/s over tokens/s of the fastest plain decoding
    end_to_end_speedup: float | None
    identity_promised: bool
    bits_promised: bool
    compared: int
    first_difference: int | None  # index of the first token that is not the same
    parting: Parting | None
    drafted: int
    drafts_told: bool  # False for a lane on a server that does not say what it drafted
    target_passes: int
    tokens_per_target_pass: float | None
    verify_seconds_per_pass: float | None
    draft_share: float | None  # of the speculative lane's decode time
    break_even_tokens_per_pass: float | None  # what a speculative step costs, in plain steps

    @property
    def identical(self) -> bool | None:
        """Whether all tokens compared so far are the same; None where that is not promised, or nothing is compared."""
        if not self.identity_promised or (self.compared == 0 and self.first_difference is None):
            return None
        return self.first_difference is None

    @property
    def sameness(self) -> Sameness | None:
        """Verdict on the texts; None before there is anything to compare."""
        if not self.identity_promised:
            return Sameness.SAME_DISTRIBUTION
        if self.identical is None:
            return None
        if self.identical:
            return Sameness.BIT_IDENTICAL if self.bits_promised else Sameness.IDENTICAL
        if self.bits_promised:
            return Sameness.FAULT
        if self.parting is None:
            return Sameness.UNEXPLAINED
        return Sameness.ROUNDING_TIE if self.parting.tie else Sameness.FAULT

    @property
    def speed(self) -> Speed | None:
        """Verdict on the speed; None while a lane's tokens/s is not defined."""
        if self.sameness is Sameness.FAULT:
            return Speed.FAULT
        if self.target_passes and not self.drafted and self.drafts_told:
            return Speed.NO_SPECULATION
        if self.speedup is None:
            return None
        if EQUAL_FROM <= self.speedup <= EQUAL_TO:
            return Speed.EQUAL
        return Speed.FASTER if self.speedup > EQUAL_TO else Speed.SLOWER


COMPARED = (Speed.FASTER, Speed.EQUAL, Speed.SLOWER)  # where a speedup is shown


def identity_promised(rule: Rule, temperature: float) -> bool:
    """Greedy and shared noise promise the same words in both lanes; rejection and block only the same distribution."""
    return rule is Rule.SHARED_NOISE or temperature == 0


def compare(
    baseline: LaneMetrics,
    speculative: LaneMetrics,
    *,
    promised: bool = True,
    bits: bool = False,
    padding: float = 1.0,
    parting: Parting | None = None,
    same_text: bool = False,
) -> Comparison:
    """The two lanes beside each other, at any moment of a race.

    promised: see `identity_promised`. bits: whether the pair's probe found the same bits in both lanes. padding: the
    baseline's plain step over the fastest one that the target has; what divides by plain steps takes the latter.
    parting: what `find_parting` measured; it needs the model, so compare without it first and ask only when there is
    a `first_difference`. same_text: both spell the same, though a tokenizer cut one of them anew into other tokens.
    """
    plain_seconds = _ratio(baseline.decode_seconds, padding)
    told = None not in (baseline.told_tokens, speculative.told_tokens)
    whole = told and Stop.FAULT not in (baseline.stop, speculative.stop)  # nothing is concluded from half an answer
    plain_rate = _ratio(baseline.decoded, plain_seconds) if whole else None
    return Comparison(
        speedup=_ratio(speculative.tokens_per_second, plain_rate),
        end_to_end_speedup=_ratio(
            speculative.end_to_end_tokens_per_second,
            _ratio(baseline.told_tokens, _plus(baseline.prefill_seconds, plain_seconds)) if whole else None,
        ),
        identity_promised=promised,
        bits_promised=bits,
        compared=min(baseline.tokens, speculative.tokens) if told else 0,
        first_difference=_first_difference(baseline, speculative) if told and not same_text else None,
        parting=parting,
        drafted=speculative.drafted,
        drafts_told=speculative.drafts_told,
        target_passes=speculative.target_passes,
        tokens_per_target_pass=speculative.tokens_per_target_pass,
        verify_seconds_per_pass=_ratio(speculative.verify_seconds, speculative.target_passes),
        draft_share=_ratio(speculative.draft_seconds, speculative.decode_seconds),
        break_even_tokens_per_pass=_ratio(
            _ratio(speculative.decode_seconds, speculative.target_passes),
            _ratio(plain_seconds, baseline.target_passes),
        ),
    )


def cost_model(baseline: LaneMetrics, speculative: LaneMetrics, *, padding: float = 1.0) -> CostModel | None:
    """The two lanes as the cost model sees them; None while there is no plain step or no judged draft to measure."""
    plain = _ratio(_ratio(baseline.decode_seconds, padding), baseline.target_passes)
    alpha, passes = speculative.alpha, speculative.target_passes
    if not plain or alpha is None or None in (speculative.draft_seconds, speculative.other_seconds):
        return None
    verified = [(drafted, int(n), seconds / n / plain) for drafted, (n, seconds) in speculative.verifications.items()]
    return CostModel(
        alpha,
        c=speculative.draft_seconds / speculative.drafted / plain,
        slope=verification_slope(verified),
        o=speculative.other_seconds / passes / plain,
        drafts=speculative.steps_that_drafted / passes,
    )


def _first_difference(baseline: LaneMetrics, speculative: LaneMetrics) -> int | None:
    """Index of the first differing token; where one lane ended by itself sooner than the other went on, that place."""
    both = min(baseline.tokens, speculative.tokens)
    if baseline.ids[:both] != speculative.ids[:both]:
        return next(i for i in range(both) if baseline.ids[i] != speculative.ids[i])
    shorter = min(baseline, speculative, key=lambda lane: lane.tokens)
    # A lane that still runs, or that somebody stopped, says nothing about the tokens it would have written next.
    ended = shorter.stop not in (None, Stop.STOPPED, Stop.FAULT)
    return both if ended and baseline.tokens != speculative.tokens else None


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b
