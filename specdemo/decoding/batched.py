"""Many requests decoded together: one forward of the target for all of them, plainly or with drafts.

Rows accept raggedly: drafts are padded to the longest, and each row goes on from where its own draft ended. A row that
is done leaves, and the last one moves into its place. The rule is shared noise, greedy being its limit, so that every
row's text is the one that the same request writes alone, up to rounding (see parting.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specdemo.decoding import verification
from specdemo.decoding.clock import Clock
from specdemo.decoding.dice import Dice
from specdemo.decoding.drafter import Drafter, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.faults import refuse_nan
from specdemo.decoding.given_up import refuse_given_up
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Fixed
from specdemo.decoding.runner import PREFILL_CHUNK, Output
from specdemo.decoding.sampling import Sampler, Stream
from specdemo.decoding.steps import Drafted, Origin, Rule, Step, Token, Verdict, Why

PAD = -1  # no token: never what the target draws


class RowsRunner(Protocol):
    """A causal language model over many sequences, each in a row of its own (see rows_forward.LeanRows)."""

    vocab_size: int
    max_length: int
    device: torch.device

    def begin(self, rows: int, columns: int) -> None: ...

    def forward(
        self, ids: Tensor, starts: Sequence[int], first: int = 0, rows: int | None = None, aux: tuple[int, ...] = ()
    ) -> Output: ...

    def move(self, source: int, target: int, length: int) -> None: ...


class RowsDrafter(Protocol):
    """A proposer over many sequences. aux_layers: target layers whose outputs it reads."""

    aux_layers: tuple[int, ...]

    def begin(self, rows: int, columns: int) -> None:
        """Room for so many sequences."""

    def admit(self, row: int, prompt: Tensor, first: int, hidden: Tensor | None, columns: int) -> None:
        """A sequence begins in a row: see Drafter.begin."""

    def propose(self, wanted: Sequence[int], draws: Sequence[Draw]) -> list[list[int]]:
        """At most so many tokens for each live row."""

    def commit(self, emitted: Sequence[Sequence[int]], hidden: Tensor | None) -> None:
        """What became of each live row's draft: see Drafter.commit. hidden: [b, k + 1, ...], k of the longest draft."""

    def move(self, source: int, target: int) -> None:
        """One row's state over another's."""


class RowByRow:
    """Drafters of one sequence each, asked one after the other: what a batch costs where drafting is not batched."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = list(drafters)
        self.aux_layers = self._drafters[0].aux_layers

    def begin(self, rows: int, columns: int) -> None:
        """Each makes room when its sequence begins."""
        assert rows <= len(self._drafters)

    def admit(self, row: int, prompt: Tensor, first: int, hidden: Tensor | None, columns: int) -> None:
        """As its own drafter begins."""
        self._drafters[row].begin(prompt, first, hidden, columns)

    def propose(self, wanted: Sequence[int], draws: Sequence[Draw]) -> list[list[int]]:
        """One after the other."""
        asked = zip(self._drafters, wanted, draws, strict=False)
        return [drafter.propose(n, draw).ids.tolist() if n else [] for drafter, n, draw in asked]

    def commit(self, emitted: Sequence[Sequence[int]], hidden: Tensor | None) -> None:
        """As each one's own drafter commits."""
        for i, (drafter, tokens) in enumerate(zip(self._drafters, emitted, strict=False)):
            drafter.commit(tokens, len(tokens) - 1, None if hidden is None else hidden[i])

    def move(self, source: int, target: int) -> None:
        """They change places."""
        drafters = self._drafters
        drafters[source], drafters[target] = drafters[target], drafters[source]


@dataclass(frozen=True, slots=True)
class RowRequest:
    """One request of a batch."""

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    limits: Limits


@dataclass(frozen=True, slots=True)
class Round:
    """One forward of the target: the Step of each request in it, by its number. The seconds are all requests' own."""

    steps: dict[int, Step]
    draft_seconds: float
    verify_seconds: float
    other_seconds: float

    @property
    def seconds(self) -> float:
        """The round's share of the batch's clock."""
        return self.draft_seconds + self.verify_seconds + self.other_seconds


@dataclass(slots=True)
class _Row:
    """A live request. length: tokens in the target's cache; `last` is emitted and not yet there."""

    number: int
    sampler: Sampler
    dice: Dice
    ending: Ending
    length: int
    last: int = PAD


@torch.inference_mode()
def decode_together(
    runner: RowsRunner, requests: Sequence[RowRequest], drafter: RowsDrafter | None = None, gamma: int = 0
) -> Iterator[Round]:
    """Yield a Round for each forward: a prompt each at first, then all live rows together. gamma 0 is plain."""
    clock, live = Clock(runner.device), []
    columns = max(len(one.prompt_ids) + _ending(one).left for one in requests) + gamma + 1
    runner.begin(len(requests), columns)
    if gamma:
        drafter.begin(len(requests), columns)
    for number, request in enumerate(requests):
        clock.start()
        row, step = _admit(runner, number, request, len(live), drafter if gamma else None, columns, clock)
        if not step.stop:
            live.append(row)
        yield Round({number: step}, **clock.times())
    while live:
        clock.start()
        wanted = [min(gamma, row.ending.left - 1) for row in live]
        for row in live:
            row.dice.start(position=row.length + 1)
        drafts = drafter.propose(wanted, [row.dice for row in live]) if gamma else [[] for _ in live]
        clock.lap("draft")
        k = max(map(len, drafts))
        padded = torch.tensor([[*draft, *[PAD] * (k - len(draft))] for draft in drafts], device=runner.device)
        padded = padded.view(len(live), k).long()
        last = torch.tensor([[row.last] for row in live], device=runner.device)
        aux = drafter.aux_layers if gamma else ()
        out = runner.forward(torch.cat([last, padded.clamp(min=0)], 1), [row.length for row in live], aux=aux)
        clock.lap("verify")
        steps = _judge(live, out.logits, drafts, padded, gamma)
        for row, (_, ids) in zip(live, steps, strict=True):
            row.length, row.last = row.length + len(ids), ids[-1]
            row.sampler.commit(ids)
        if gamma and not all(step.stop for step, _ in steps):
            clock.lap("other")
            drafter.commit([ids for _, ids in steps], out.hidden)
            clock.lap("draft")
        done = {row.number: step for row, (step, _) in zip(live, steps, strict=True)}
        _let_go(runner, drafter if gamma else None, live, done)
        yield Round(done, **clock.times())


def _ending(request: RowRequest) -> Ending:
    return Ending(request.limits, len(request.prompt_ids))


def _admit(
    runner: RowsRunner,
    number: int,
    request: RowRequest,
    place: int,
    drafter: RowsDrafter | None,
    columns: int,
    clock: Clock,
) -> tuple[_Row, Step]:
    """Run a prompt in the next free row, and draw its first token."""
    prompt = torch.tensor(request.prompt_ids, device=runner.device)
    sampler = Sampler(request.params, runner.vocab_size, runner.device, prompt)
    row = _Row(number, sampler, Dice(sampler, Rule.SHARED_NOISE, Fixed(1)), _ending(request), len(prompt))
    hidden = []
    for start in range(0, len(prompt), PREFILL_CHUNK):
        refuse_given_up()
        chunk, aux = prompt[None, start : start + PREFILL_CHUNK], drafter.aux_layers if drafter else ()
        out = runner.forward(chunk, [start], place, rows=1, aux=aux)
        hidden.append(None if out.hidden is None else out.hidden[0])
    clock.lap("verify")
    row.dice.start(position=row.length)
    ((step, ids),) = _judge([row], out.logits, [[]], prompt.new_empty(1, 0), 0)
    row.last = ids[0]
    sampler.commit(ids)
    if drafter is not None and not step.stop:
        clock.lap("other")
        drafter.admit(place, prompt, ids[0], torch.cat(hidden) if drafter.aux_layers else None, columns)
        clock.lap("draft")
    return row, Step(step.tokens, why=Why.PREFILL, kv_length=row.length, stop=step.stop)


def _judge(
    live: Sequence[_Row], logits: Tensor, drafts: Sequence[list[int]], padded: Tensor, gamma: int
) -> list[tuple[Step, list[int]]]:
    """Of each row, by logits [b, k + 1, vocab]: its step, and the tokens it goes on with, uncut."""
    weights, noise = _race(live, logits.float(), padded)
    judged = verification.shared_noise(weights, padded, noise)
    emitted = torch.cat([padded, judged.token[:, None]], 1)
    at = torch.arange(emitted.shape[1], device=emitted.device) == judged.accepted[:, None]
    emitted = torch.where(at, judged.token[:, None], emitted)
    drawn = logits.gather(1, judged.accepted[:, None, None].expand(-1, 1, logits.shape[-1]))[:, 0]
    score = drawn.gather(1, judged.token[:, None]).double()
    table = torch.cat([judged.accepted[:, None].double(), score, emitted.double()], 1).tolist()  # one synchronisation
    refuse_nan("target", *(score for _, score, *_ in table))
    found = []
    for row, draft, (accepted, _, *ids) in zip(live, drafts, table, strict=True):
        accepted = int(accepted)
        ids = [int(one) for one in ids[: accepted + 1]]
        left, stop = row.ending.cut(ids)
        found.append((_step(draft, ids, left, gamma, row.length + len(ids), stop), ids))
    return found


def _race(live: Sequence[_Row], logits: Tensor, padded: Tensor) -> tuple[Tensor, Tensor]:
    """What the target draws from, [b, k + 1, vocab], and with which noise. Greedy, the likeliest logit wins."""
    if all(row.sampler.params.temperature == 0 and row.sampler.seen is None for row in live):
        return logits, logits.new_ones(1)
    p, noise = [], []
    for row, rows, draft in zip(live, logits, padded.clamp(min=0), strict=True):
        p.append(row.sampler.target(rows, draft))
        positions = range(row.dice.position, row.dice.position + len(rows))
        warm = row.sampler.params.temperature > 0
        noise.append(row.sampler.noise(Stream.TARGET, positions) if warm else torch.ones_like(p[-1]))
    return torch.stack(p), torch.stack(noise)


def _step(draft: list[int], ids: list[int], left: int, gamma: int, length: int, stop: object) -> Step:
    accepted = len(ids) - 1
    own = Origin.TARGET if not draft else Origin.BONUS if accepted == len(draft) else Origin.CORRECTED
    tokens = [*(Token(one, Origin.ACCEPTED) for one in ids[:-1]), Token(ids[-1], own)]
    verdicts = [Verdict.ACCEPTED if i < accepted else Verdict.REFUSED for i in range(accepted + 1)]
    verdicts += [Verdict.UNREACHED] * len(draft)
    drafted = tuple(Drafted(one, verdict) for one, verdict in zip(draft, verdicts, strict=False))
    return Step(tuple(tokens[:left]), drafted, gamma, Why.POLICY if gamma else Why.PLAIN, length, stop=stop)


def _let_go(runner: RowsRunner, drafter: RowsDrafter | None, live: list[_Row], done: dict[int, Step]) -> None:
    """Rows that are done leave; the last row moves into each gap, so that the live ones stay side by side."""
    for i in reversed(range(len(live))):
        if not done[live[i].number].stop:
            continue
        last = len(live) - 1
        if i != last:
            runner.move(last, i, live[last].length)
            if drafter is not None:
                drafter.move(last, i)
            live[i] = live[last]
        live.pop()
