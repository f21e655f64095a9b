"""Does the rule accept what it should? Both distributions of every judged token, beside what became of it.

A lane that is not timed runs once more with its drafter and its target looked at from outside, so that the engine
itself keeps no distributions. What a rule should accept follows from p and q alone; a clear shortfall, or an excess, is
a fault of the implementation and of no draft.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specdemo.decoding.drafter import Draft, Draw, Pruned
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Output
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Rule, Verdict
from specdemo.lab.runs import followed
from specdemo.race import Lane, Request, lanes

if TYPE_CHECKING:
    from specdemo.models.pair import Pair


def expected_acceptance(p: Tensor, q: Tensor, rule: Rule) -> float:
    """The probability that one token drafted from q [V] is accepted by p [V], over draft and judgement alike.

    Rejection: the sum of min(p, q), which is 1 - TV (Leviathan et al. 2023). Shared noise: x wins both races with
    probability 1 / sum over y of max(p_y / p_x, q_y / q_x), summed over x. Block judges whole drafts: see Evidence.
    """
    p, q = p.double(), q.double()
    if rule is not Rule.SHARED_NOISE:
        return torch.minimum(p, q).sum().item()
    both = ((p > 0) | (q > 0)).nonzero()[:, 0]
    p, q = p[both], q[both]
    order = (p / q).argsort(descending=True)  # q = 0 first: there p's part is the larger one for every x
    p, q = p[order], q[order]
    larger = p.cumsum(0) - p  # of the y with a higher p_y / q_y than x has, p_y / p_x is the maximum
    rest = q.flip(0).cumsum(0).flip(0)
    won = 1 / (larger / p + rest / q)
    return torch.where((p > 0) & (q > 0), won, 0.0).sum().item()


def total_variation(p: Tensor, q: Tensor) -> float:
    """TV(p, q): half of the sum of |p - q|."""
    return ((p.double() - q.double()).abs().sum() / 2).item()


def divergence(p: Tensor, q: Tensor) -> float:
    """KL(p || q) in nats; infinite where the draft never says what the target may."""
    p, q = p.double(), q.double()
    return torch.where(p > 0, p * (p / q).log(), 0.0).sum().item()


@dataclass(frozen=True, slots=True)
class Seen:
    """One drafted token, before its verdict. expected: see `expected_acceptance`. ratio: min(1, p(x) / q(x)).

    tv, kl: of the models' own distributions where the lane is greedy, else of those sampled from; None where the
    drafter is no model.
    """

    expected: float
    ratio: float
    tv: float | None
    kl: float | None


@dataclass(slots=True)
class Position:
    """Sums over judged tokens at one place of a draft. reached: drafts that had a token there, judged or not."""

    reached: int = 0
    judged: int = 0
    accepted: int = 0
    expected: float = 0.0
    variance: float = 0.0
    told: int = 0  # with two distributions
    tv: float = 0.0
    finite: int = 0  # with a finite divergence
    kl: float = 0.0


@dataclass(slots=True)
class Evidence:
    """A lane's. positions: from the first. surplus: of each draft, accepted tokens beyond what rejection would."""

    positions: list[Position] = field(default_factory=list)
    surplus: list[float] = field(default_factory=list)

    def add(self, seen: Sequence[Seen], verdicts: Sequence[Verdict]) -> None:
        """A round's drafted tokens and what became of them."""
        self.positions += [Position() for _ in range(len(seen) - len(self.positions))]
        passes, chance = 0.0, 1.0
        for one in seen:
            chance *= one.ratio
            passes += chance
        self.surplus.append(sum(verdict is Verdict.ACCEPTED for verdict in verdicts) - passes)
        for at, one, verdict in zip(self.positions, seen, verdicts, strict=False):
            at.reached += 1
            if verdict is Verdict.UNREACHED:
                continue
            at.judged += 1
            at.accepted += verdict is Verdict.ACCEPTED
            at.expected += one.expected
            at.variance += one.expected * (1 - one.expected)
            if one.tv is not None:
                at.told += 1
                at.tv += one.tv
                if one.kl < float("inf"):
                    at.finite += 1
                    at.kl += one.kl


def witnessed(pair: Pair, request: Request) -> Generator[None, None, Evidence]:
    """Run the speculative lane of a request under watch, untimed, with a pause after each step."""
    watch = _Watch(request, pair.target_twin.vocab_size)
    seen = _WatchedPair(pair, _WatchedRunner(pair.target_twin, watch), _WatchedDrafter(pair.drafter, watch))
    steps = yield from followed(lanes(seen, request)[Lane.SPECULATIVE])
    evidence = Evidence()
    for one, step in zip(watch.rounds, [step for step in steps if step.drafted], strict=True):
        evidence.add(one, [drafted.verdict for drafted in step.drafted])
    return evidence


class _WatchedPair:
    """The pair with both sides of its speculative lane looked at."""

    def __init__(self, pair: Pair, target_twin: _WatchedRunner, drafter: _WatchedDrafter) -> None:
        self._pair, self.target_twin, self.drafter = pair, target_twin, drafter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pair, name)


class _Watch:
    """What drafter and target said in each round that drafted."""

    def __init__(self, request: Request, vocabulary: int) -> None:
        self.request, self.vocabulary = request, vocabulary
        self.rounds: list[list[Seen]] = []
        self.sampler: Sampler | None = None
        self.raw: Sampler | None = None
        self._draft: Draft | None = None
        self._logits: list[Tensor] = []

    def begin(self, prompt: Tensor, first: int) -> None:
        params = self.request.params
        self.sampler = Sampler(params, self.vocabulary, prompt.device, prompt)
        raw = SamplingParams(temperature=1.0) if params.temperature == 0 else params
        self.raw = Sampler(raw, self.vocabulary, prompt.device, prompt)
        self.commit([first])

    def commit(self, tokens: Sequence[int]) -> None:
        for sampler in (self.sampler, self.raw):
            sampler.commit(tokens)

    def proposed(self, draft: Draft, logits: list[Tensor]) -> None:
        self._draft, self._logits = draft, logits[: len(draft.ids)]

    def judged(self, logits: Tensor) -> None:
        """The target's logits [k + 1, vocab] of the draft just proposed."""
        draft, self._draft = self._draft, None
        if draft is None or not len(draft.ids):
            return
        p = self.sampler.target(logits.float(), draft.ids)
        models = draft.q is not None
        raw = self.raw.target(logits.float(), draft.ids) if models else None
        self.rounds.append([self._look(i, draft.ids, p[i], None if raw is None else raw[i]) for i in range(len(p) - 1)])

    def _look(self, i: int, ids: Tensor, p: Tensor, raw: Tensor | None) -> Seen:
        rule, token = self.request.rule, ids[i]
        if raw is None:
            q = torch.zeros_like(p)
            q[token] = 1.0
            tv = kl = None
        else:
            q = self.sampler.draft(self._logits[i], list(ids[:i])).p
            own = self.raw.draft(self._logits[i], list(ids[:i])).p
            tv, kl = total_variation(raw, own), divergence(raw, own)
        ratio = (p[token] / q[token]).clamp(max=1).item()
        return Seen(expected_acceptance(p, q, rule), ratio, tv, kl)


class _WatchedRunner:
    """A Runner whose verifications are looked at."""

    def __init__(self, runner: Any, watch: _Watch) -> None:
        self._runner, self._watch = runner, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        out = self._runner.forward(ids, rows, aux_layers)
        self._watch.judged(out.logits)
        return out


class _WatchedDraw:
    """A Draw that keeps the logits it is given."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.logits: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._draw, name)

    def __call__(
        self, logits: Tensor, drafted: Sequence[Tensor], among: Pruned | None = None
    ) -> tuple[Tensor, Tensor] | None:
        self.logits.append(logits.clone() if among is None else among.whole(logits))
        return self._draw(logits, drafted, among)


class _WatchedDrafter:
    """A Drafter whose logits are looked at."""

    def __init__(self, drafter: Any, watch: _Watch) -> None:
        self._drafter, self._watch = drafter, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        self._drafter.begin(prompt_ids, first, hidden, capacity, keep)
        self._watch.begin(prompt_ids, first)

    def propose(self, gamma: int, draw: Draw) -> Draft:
        seen = _WatchedDraw(draw)
        draft = self._drafter.propose(gamma, seen)
        self._watch.proposed(draft, seen.logits)
        return draft

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self._drafter.commit(tokens, accepted, hidden)
        self._watch.commit(tokens)
