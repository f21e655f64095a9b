"""Where does speculation stop paying? The same requests, so many at a time: throughput and latency, plain and drafted.

A batch saves what a draft saves: weights that are read once for several tokens. All requests of a batch begin
together, and a row that is done leaves, as decoding/batched.py has it; every batch size answers the same requests.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice, pairwise, zip_longest
from typing import TYPE_CHECKING

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Rule
from specdemo.lab.chart import Chart, mark
from specdemo.lab.experiment import Experiment, LabRefused, Row, Told
from specdemo.lab.options import COUNT, TEMPERATURE, TOKENS, Number, Several, option
from specdemo.lab.pooled import shown
from specdemo.lab.prompts import Asked, PromptOptions
from specdemo.lab.runs import WARM_UP, followed
from specdemo.metrics import LaneMetrics
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.race import Lane, Request, check, lanes

if TYPE_CHECKING:
    from specdemo.decoding.batched import Round, RowRequest, RowsDrafter, RowsRunner
    from specdemo.decoding.drafter import Drafter
    from specdemo.decoding.runner import Runner
    from specdemo.models.pair import Pair

SIDES = ("plain", "drafted")
LARGEST = 256


@dataclass(frozen=True, slots=True)
class BatchOptions(PromptOptions):
    """Both sides at every size."""

    batches: tuple[int, ...] = option((1, 2, 4, 8, 16, 32), "requests at a time", Several(Number(int, 1, LARGEST)))
    requests: int | None = option(None, "that every size answers (as many as the largest batch)", COUNT)
    gamma: int = option(5, "draft length", Number(int, 1, MAX_GAMMA))
    temperature: float = option(0.0, "0 is greedy", TEMPERATURE)
    max_new_tokens: int = option(64, "tokens that each answer may have", TOKENS)


def cells(options: BatchOptions) -> list[Row]:
    """One for each batch size."""
    options.read()
    if options.requests is not None and options.requests < max(options.batches):
        raise LabRefused(
            f"A batch of {max(options.batches)} needs as many --requests: ask for more, or smaller batches."
        )
    return [{"batch": size} for size in options.batches]


def run(pair: Pair, options: BatchOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """Size by size, all batches of a size plainly and with drafts in turn."""
    asked = requests_of(options, options.asked(pair).values())
    for request in asked:
        check(pair, request)
    runner = rows_runner(pair.target)
    alone: dict[Request, list[int]] = {}
    for n, cell in enumerate(todo):
        if n == 0:
            short = [replace(one, max_new_tokens=min(WARM_UP, one.max_new_tokens)) for one in asked[:2]]
            for side in SIDES:
                yield from _batch(pair, runner, short, options.gamma, side)
        yield cell | (yield from _measured(pair, runner, batches_of(asked, cell["batch"]), options.gamma, alone))


def rows_runner(runner: Runner) -> RowsRunner:
    """The batch over a runner's weights; LabRefused where there is none."""
    from specdemo.decoding.captured import CapturedRunner
    from specdemo.decoding.equal_shapes import EqualShapes
    from specdemo.decoding.forward import LeanRunner
    from specdemo.decoding.rows_forward import LeanRows

    inner = runner
    while isinstance(inner, EqualShapes | CapturedRunner):
        inner = inner.runner
    if not isinstance(inner, LeanRunner):
        raise LabRefused(
            f"Batches need the lean forward, and this target runs by the general one. {inner.notice} "
            "Take a Llama-like target with plain weights (fp32, bf16 or fp16)."
        )
    return LeanRows(inner)


def rows_drafter(drafter: Drafter, rows: int) -> RowsDrafter:
    """The same drafter for so many sequences: a head in one pass for all, any other row by row."""
    from specdemo.decoding.batched import RowByRow
    from specdemo.drafters.head import HeadDrafter
    from specdemo.drafters.head_rows import HeadRows

    return HeadRows.of(drafter) if isinstance(drafter, HeadDrafter) else RowByRow([drafter.twin() for _ in range(rows)])


def requests_of(options: BatchOptions, asked: Iterable[Asked]) -> list[Request]:
    """As many as every size answers: the prompts in their order, from the first one again where they do not suffice."""
    count = options.requests or max(options.batches)
    return [
        Request(
            prompt.ids,
            SamplingParams(options.temperature, seed=prompt.seed),
            Rule.SHARED_NOISE,
            options.gamma,
            options.max_new_tokens,
        )
        for prompt in islice(cycle(_mixed(list(asked), options)), count)
    ]


def _mixed(asked: list[Asked], options: BatchOptions) -> list[Asked]:
    """A prompt of each kind in turn, so that small batches are not of one kind."""
    kinds: dict[str, list[Asked]] = {}
    for prompt, one in zip(options.read(), asked, strict=True):
        kinds.setdefault(prompt.kind, []).append(one)
    return [one for turn in zip_longest(*kinds.values()) for one in turn if one is not None]


def batches_of(requests: Sequence[Request], size: int) -> list[list[Request]]:
    """All requests in batches of this size; the last one is filled up with the first requests again."""
    count = -(-len(requests) // size)
    several = list(islice(cycle(requests), count * size))
    return [several[i * size : (i + 1) * size] for i in range(count)]


# --- One batch size ---------------------------------------------------------------------------------------------------


def _measured(
    pair: Pair,
    runner: RowsRunner,
    batches: Sequence[Sequence[Request]],
    gamma: int,
    alone: dict[Request, list[int]],
) -> Generator[None, None, Row]:
    """Every batch by both sides, the one that goes first changing; then what each row should have written."""
    done: dict[str, list[Batch]] = {side: [] for side in SIDES}
    ties, faults = 0, 0
    for turn, requests in enumerate(batches):
        for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
            done[side].append((yield from _batch(pair, runner, requests, gamma, side)))
    for requests, *sides in zip(batches, *done.values(), strict=True):
        for n, request in enumerate(requests):
            if request not in alone:
                steps = yield from followed(lanes(pair, request)[Lane.BASELINE])
                alone[request] = [token.id for step in steps for token in step.tokens]
            for side in sides:
                tie = _tie(pair, request, alone[request], side.metrics[n].ids)
                ties, faults = ties + (tie is True), faults + (tie is False)
                yield
    return _row(done) | {"ties": ties, "faults": faults}


def _tie(pair: Pair, request: Request, mine: Sequence[int], other: Sequence[int]) -> bool | None:
    """Whether a row parts from its solo run at a near-tie; None where it does not part."""
    from specdemo.decoding.parting import find_parting

    parting = find_parting(pair.target, request.prompt_ids, request.params, mine, other)
    return None if parting is None else parting.tie


def _batch(
    pair: Pair, runner: RowsRunner, requests: Sequence[Request], gamma: int, side: str
) -> Generator[None, None, Batch]:
    """One batch, with a pause after each round."""
    from specdemo.decoding.batched import decode_together

    rows = [_row_request(pair, one) for one in requests]
    if side == SIDES[0]:
        rounds = decode_together(runner, rows)
    else:
        rounds = decode_together(runner, rows, rows_drafter(pair.drafter, len(rows)), gamma)
    batch = Batch(len(rows))
    try:
        for done in rounds:
            batch.add(done)
            yield
    finally:
        rounds.close()
    return batch


def _row_request(pair: Pair, request: Request) -> RowRequest:
    from specdemo.decoding.batched import RowRequest
    from specdemo.decoding.ending import Limits

    limits = Limits(request.max_new_tokens, pair.context, pair.eos_ids)
    return RowRequest(request.prompt_ids, request.params, limits)


class Batch:
    """What one batch counted, a fold over its Rounds.

    prefill_seconds: of all prompts, one after the other. decode_seconds: of the rounds behind them. ended: of each
    request, seconds from the batch's beginning to its own last token: its latency where all arrive at once.
    """

    def __init__(self, size: int) -> None:
        self.metrics = [LaneMetrics() for _ in range(size)]
        self.rounds = 0
        self.prefill_seconds = self.decode_seconds = 0.0
        self.ended = [math.nan] * size

    def add(self, done: Round) -> None:
        """Fold in the batch's next round."""
        prefill = not all(self.metrics[n].steps for n in done.steps)
        if prefill:
            self.prefill_seconds += done.seconds
        else:
            self.rounds += 1
            self.decode_seconds += done.seconds
        for n, step in done.steps.items():
            self.metrics[n].add(step)
            if step.stop:
                self.ended[n] = self.prefill_seconds + self.decode_seconds

    @property
    def decoded(self) -> int:
        """Tokens after each request's first."""
        return sum(one.decoded for one in self.metrics)


def _row(done: dict[str, list[Batch]]) -> Row:
    """Both sides' counts, over all batches of a size."""
    row: Row = {"requests": sum(len(batch.metrics) for batch in done[SIDES[0]])}
    for side, batches in done.items():
        ended = sorted(seconds for batch in batches for seconds in batch.ended)
        row |= {
            f"{side} tokens": sum(batch.decoded for batch in batches),
            f"{side} rounds": sum(batch.rounds for batch in batches),
            f"{side} s": sum(batch.decode_seconds for batch in batches),
            f"{side} prefill s": sum(batch.prefill_seconds for batch in batches),
            f"{side} latency s": sum(ended) / len(ended),
            f"{side} longest latency s": ended[-1],
        }
    metrics = [one for batch in done[SIDES[1]] for one in batch.metrics]
    for name, figure in (("drafted", "drafted"), ("accepted", "accepted"), ("drafting passes", "steps_that_drafted")):
        row[name] = sum(getattr(one, figure) for one in metrics)
    return row


# --- What the rows say ------------------------------------------------------------------------------------------------


def throughput(row: Row, side: str) -> float | None:
    """Tokens a second of all rows together, prompts aside; None where no round followed the prompts."""
    return row[f"{side} tokens"] / row[f"{side} s"] if row[f"{side} s"] else None


def speedup(row: Row) -> float | None:
    """Throughput with drafts over the plain one at the same batch size."""
    plain, drafted = (throughput(row, side) for side in SIDES)
    return drafted / plain if plain and drafted is not None else None


def crossing(ratios: Sequence[tuple[int, float]]) -> float | None:
    """The batch size at which a speedup falls to 1, between (batch, speedup) in order of batch.

    Linear over the logarithm of the size; None where it never falls from 1 or more to less.
    """
    for (size, before), (larger, after) in pairwise(ratios):
        if before >= 1 > after:
            share = (before - 1) / (before - after)
            return 2 ** (math.log2(size) + share * (math.log2(larger) - math.log2(size)))
    return None


def table(rows: Sequence[Row]) -> list[Told]:
    """A line for each batch size."""
    return [_line(row) for row in sorted(rows, key=lambda row: row["batch"])]


def _line(row: Row) -> Told:
    told = {"batch": str(row["batch"])}
    for side in SIDES:
        told[f"{side} tokens/s"] = shown(throughput(row, side), decimals=1)
    told["speedup"] = shown(speedup(row))
    told["mean acceptance length"] = shown(
        1 + row["accepted"] / row["drafting passes"] if row["drafting passes"] else None
    )
    for side in SIDES:
        told[f"{side} latency s"] = shown(row[f"{side} latency s"])
        told[f"longest {side} s"] = shown(row[f"{side} longest latency s"])
    name = "ties" if "ties" in row else "parted"  # no server's texts are weighed
    return told | {name: "–" if row[name] is None else str(row[name])}


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Throughput of both sides against the batch size, and one over the other."""
    if not rows:
        return []
    rows = sorted(rows, key=lambda row: row["batch"])
    sizes = tuple(str(row["batch"]) for row in rows)
    speeds = tuple(tuple(mark(throughput(row, side)) for row in rows) for side in SIDES)
    ratios = (tuple(mark(speedup(row)) for row in rows),)
    return [
        Chart("Tokens a second, all requests together", "batch", sizes, SIDES, speeds, joined=True),
        Chart("Speedup by batch size", "batch", sizes, ("speedup",), ratios, joined=True, even=1.0),
    ]


def findings(rows: Sequence[Row]) -> list[str]:
    """Where speculation stops paying; what a batch is worth beside it; whether rows are what they are alone."""
    return [*paying(rows), *_alone(rows)] if rows else []


def paying(rows: Sequence[Row]) -> list[str]:
    """Where speculation stops paying; what a batch is worth beside it."""
    rows = sorted(rows, key=lambda row: row["batch"])
    ratios = [(row["batch"], found) for row in rows if (found := speedup(row)) is not None]
    return [_where(ratios), *_best(rows)] if ratios else []


def _where(ratios: Sequence[tuple[int, float]]) -> str:
    at = crossing(ratios)
    paying = [size for size, ratio in ratios if ratio >= 1]
    spoken = ", ".join(f"{ratio:.2f}× at {size}" for size, ratio in ratios)
    if at is not None:
        return f"Speculation stops paying at a batch of about {at:.0f}: {spoken}."
    if not paying:
        return f"Speculation pays at no batch size here: {spoken}."
    if len(paying) == len(ratios):
        return f"Speculation pays at every batch size here: {spoken}."
    return f"Speculation begins to pay at a batch of {paying[0]}: {spoken}."


def _best(rows: Sequence[Row]) -> list[str]:
    """The two ways to use a pass for several tokens, against each other: the batch alone, and the draft alone."""
    fastest = ((side, max(rows, key=partial(_speed, side))) for side in SIDES)
    plain, drafted = (f"{row['batch']}, {_speed(side, row):.1f} tokens/s" for side, row in fastest)
    return [f"Plain is fastest at {plain}; drafted is fastest at {drafted}, all requests together."]


def _speed(side: str, row: Row) -> float:
    return throughput(row, side) or 0.0


def _alone(rows: Sequence[Row]) -> list[str]:
    count, ties, faults = (sum(row[name] for row in rows) for name in ("requests", "ties", "faults"))
    compared = f"{2 * count} answers of batches compared with the same request alone"
    if faults:
        return [f"FAULT: {compared}: {faults} part where the logits are no near-tie."]
    return [
        f"{compared}: {f'{ties} part at a near-tie, the rest are' if ties else 'all are'} the same, token by token."
    ]


BATCH = Experiment(
    "batch",
    "At which batch size does speculation stop paying, and what does a request wait?",
    BatchOptions,
    cells,
    run,
    table,
    findings,
    charts=charts,
)
