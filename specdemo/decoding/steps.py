"""Token, Drafted, Step, Trace, Parting: the data that flows through the house.

A decoder yields Steps; a Step is what one forward pass of the target produced. Whatever a person sees is a fold over
a stream of Steps. Everything here is frozen, picklable and free of tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from specdemo.decoding.params import SamplingParams


class Origin(StrEnum):
    """Who is responsible for an emitted token."""

    TARGET = "target"  # plain decoding, or a speculative step that drafted nothing
    ACCEPTED = "accepted"  # proposed by the drafter, accepted by the target
    CORRECTED = "corrected"  # the target's own token where a draft was refused
    BONUS = "bonus"  # the target's token after a fully accepted draft
    UNKNOWN = "unknown"  # a remote engine that does not say


UNTOLD = -1  # the id of a token of which an engine tells none: of a refused draft, or of text without ids


class Verdict(StrEnum):
    """What became of a drafted token."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNREACHED = "unreached"  # behind a refusal: never judged


class Rule(StrEnum):
    """How the target judges a draft (see verification.py)."""

    SHARED_NOISE = "shared noise"
    REJECTION = "rejection"
    BLOCK = "block"


class DraftLength(StrEnum):
    """How the number of drafted tokens is chosen (see draft_length.py)."""

    FIXED = "fixed"
    ADDITIVE = "additive"
    TWO_LEVELS = "two levels"
    ACROSS_RUNS = "across runs"
    HEURISTIC = "heuristic"
    CONFIDENCE = "confidence"
    ENTROPY = "entropy"
    COST_OPTIMAL = "cost optimal"
    MARGINAL_GAIN = "marginal gain"
    INTERVALS = "intervals"
    FALLBACK = "fallback"
    ACCEPTANCE_FALLBACK = "acceptance fallback"


class Why(StrEnum):
    """Why a step drafted as many tokens as it did."""

    PREFILL = "prefill"  # the first token: it comes from the prompt's own forward
    PLAIN = "plain"  # a lane that never drafts: the baseline, or a draft length of 0
    POLICY = "policy"  # as many as the draft length policy asked for
    NO_MATCH = "no match"  # the drafter had nothing, or less than asked, to propose
    UNSURE = "unsure"  # the chain ended where the drafter's own distribution was too flat
    BUDGET = "budget"  # cut to what max_new_tokens or the context still allow
    INTERVAL = "interval"  # the plain step that is due after so many tokens
    CALIBRATION = "calibration"  # a plain step, to know what one costs
    DOES_NOT_PAY = "does not pay"  # plain, because a draft is expected to cost more than it saves
    PROBE = "probe"  # a draft, to see whether that still holds
    FALLBACK = "fallback"  # plain from here on: drafts have not paid, or not been accepted, for long enough


class Stop(StrEnum):
    """Why a lane ended."""

    EOS = "end of text"
    STOP_STRING = "stop string"
    BUDGET = "token budget"
    CONTEXT = "context limit"
    STOPPED = "stopped"  # somebody pressed Stop
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token.

    p and q are the probabilities really sampled from (greedy p is 1); p_raw is the target's, before temperature and
    truncation. None where unknown, or where there was no draft.
    """

    id: int
    origin: Origin
    p: float | None = None
    q: float | None = None
    p_raw: float | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """One proposed token. q, p: draft's and target's probability of it, as sampled from. p, draw and chance are None
    for one that was never judged.

    draw: the uniform number it was judged with under rejection and block; under shared noise the id the target drew.
    chance: what the uniform number had to stay below. Under block it speaks of the whole draft up to this token.
    parent: index of the drafted token before it in a tree; None in a chain.
    """

    id: int
    verdict: Verdict
    q: float | None = None
    p: float | None = None
    draw: float | None = None
    chance: float | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What one forward pass of the target produced.

    gamma: the draft length asked for. kv_length: tokens in the target's cache once the step is committed.
    The three times (seconds) add up to the step's share of the lane's clock; None where unknown.
    residual_top: (id, probability) of the likeliest tokens of the distribution the last token was drawn from, under
    rejection and block. residual_mass: what was left of p there once q had been taken off, where a draft was refused.
    reused: tokens of the prompt that this step did not run, because the cache still held them; the first step's alone.
    stop: set on the last step of a lane.
    """

    tokens: tuple[Token, ...]
    drafted: tuple[Drafted, ...] = ()
    gamma: int = 0
    why: Why = Why.PLAIN
    kv_length: int = 0
    draft_seconds: float | None = None
    verify_seconds: float | None = None
    other_seconds: float | None = None
    residual_top: tuple[tuple[int, float], ...] = ()
    residual_mass: float | None = None
    reused: int = 0
    stop: Stop | None = None

    @property
    def accepted(self) -> int:
        """Drafted tokens that the target accepted, those behind an end of text included."""
        return sum(d.verdict is Verdict.ACCEPTED for d in self.drafted)

    @property
    def judged(self) -> int:
        """Accepted and refused; a draft behind a refusal is never reached."""
        return sum(d.verdict is not Verdict.UNREACHED for d in self.drafted)

    @property
    def seconds(self) -> float | None:
        """The step's share of its lane's clock."""
        times = (self.draft_seconds, self.verify_seconds, self.other_seconds)
        return None if None in times else sum(times)


SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class Trace:
    """A lane's whole run: enough to show, measure and replay it without a model.

    lane: "baseline" or "speculative". texts: what each emitted token adds to the text ("" while a character is
    incomplete), one entry per emitted token; spellings: drafted tokens, those of `residual_top` and the end of text,
    each by itself; both are filled in above this floor. pair and environment: plain facts to print.
    """

    lane: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    rule: Rule
    steps: tuple[Step, ...] = ()
    texts: tuple[str, ...] = ()
    spellings: dict[int, str] = field(default_factory=dict)
    pair: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    row: int = 0
    version: int = SCHEMA_VERSION

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Every emitted token, in order."""
        return tuple(token for step in self.steps for token in step.tokens)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Ids of every emitted token, in order."""
        return tuple(token.id for token in self.tokens)

    @property
    def prefill_seconds(self) -> float | None:
        """Seconds of the first step: the prompt's forward, and the drafter's on the speculative lane."""
        return self.steps[0].seconds if self.steps else None

    @property
    def stop_reason(self) -> Stop | None:
        """Why the lane ended; None while it runs."""
        return self.steps[-1].stop if self.steps else None


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference. index: of the emitted token. baseline, speculative: the ids there; None past a lane's end.

    gap: what the target scores one above the other there (logits over temperature, with the noise of the position);
    None where one lane simply ended. tie: the gap is within what rounding in this dtype explains. spacing: what lies
    between two neighbouring numbers of the dtype there, on the scale of the gap.
    """

    index: int
    baseline: int | None
    speculative: int | None
    gap: float | None
    tie: bool
    dtype: str = ""
    spacing: float | None = None
