"""How does an experiment run lanes? Step by step, so that it can be stopped, and each beside a plain lane of its own.

On a prompt the plain lane runs before the speculative lanes and after them, and both runs count: drift of the machine
during the others meets it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from specdemo.decoding.steps import Step
from specdemo.lab.experiment import Row
from specdemo.lab.pooled import counts
from specdemo.lab.server_pair import ServerPair
from specdemo.metrics import LaneMetrics, Sameness, compare, identity_promised
from specdemo.race import Lane, Request, check, lanes

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

Running = Generator[None, None, list[Row]]
WARM_UP = 8  # tokens


def followed(lane: Iterator[Step | None]) -> Generator[None, None, list[Step]]:
    """A lane's Steps, with a pause after each, and where it only waits; closing the pause closes the lane."""
    steps = []
    with closing(lane):
        for step in lane:
            if step is not None:
                steps.append(step)
            yield
    return steps


def lane_of(pair: Pair | ServerPair, request: Request, which: Lane) -> Iterator[Step | None]:
    """One lane, ready to be advanced."""
    return pair.steps(request, which) if isinstance(pair, ServerPair) else lanes(pair, request)[which]


def contest(contestants: Sequence[tuple[Pair | ServerPair, Request]]) -> Running:
    """For each contestant on one prompt: what its lane and the plain lane beside it counted, and how the texts compare.

    All have the same target, prompt and target-side sampling; what differs is who drafts, how long, by which rule.
    """
    pair, first = contestants[0]
    plain = [(yield from followed(lane_of(pair, first, Lane.BASELINE)))]
    steps = []
    for other, request in contestants:
        steps.append((yield from followed(lane_of(other, request, Lane.SPECULATIVE))))
    plain.append((yield from followed(lane_of(pair, first, Lane.BASELINE))))
    baselines = [LaneMetrics.of(one) for one in plain]
    rows = []
    for (other, request), lane in zip(contestants, steps, strict=True):
        metrics = LaneMetrics.of(lane)
        rows.append(counts(metrics, baselines, other.padding) | texts(other, request, baselines[0], metrics))
        yield
    return rows


def measured(
    todo: Sequence[Row], contestant: Callable[[Row], tuple[Pair | ServerPair, Request]], beside: Callable[[Row], Any]
) -> Iterator[Row | None]:
    """The rows of these cells, cell and counts together; cells for which `beside` is equal share their plain lanes."""
    for cell in todo:
        pair, request = contestant(cell)
        pair.check(request) if isinstance(pair, ServerPair) else check(pair, request)
    for n, (_, group) in enumerate(groupby(todo, beside)):
        cells = list(group)
        contestants = [contestant(cell) for cell in cells]
        if n == 0:
            yield from warm_up(contestants)
        counted = yield from contest(contestants)
        for cell, row in zip(cells, counted, strict=True):
            yield cell | row


def warm_up(contestants: Sequence[tuple[Pair | ServerPair, Request]]) -> Generator[None, None, None]:
    """A few tokens of every lane, uncounted: the first forwards of a process pay for much that later ones do not."""
    for pair, request in contestants:
        short = replace(request, max_new_tokens=min(WARM_UP, request.max_new_tokens))
        for lane in Lane:
            yield from followed(lane_of(pair, short, lane))
        if not isinstance(pair, ServerPair):
            pair.levels.reset()


def texts(pair: Pair | ServerPair, request: Request, baseline: LaneMetrics, speculative: LaneMetrics) -> Row:
    """How the texts of two lanes compare, a difference weighed where the same words are promised."""
    from specdemo.decoding.parting import find_parting

    promised = identity_promised(request.rule, request.params.temperature)
    served = isinstance(pair, ServerPair)
    found = compare(baseline, speculative, promised=promised, bits=not served and pair.bits_promised)
    if found.identical is False and not served:
        parting = find_parting(pair.target, request.prompt_ids, request.params, baseline.ids, speculative.ids)
        found = replace(found, parting=parting)
    return {"texts": found.sameness and found.sameness.value}


def faults(rows: Sequence[Row]) -> list[str]:
    """A finding for each row whose two texts should have been one."""
    found = [row for row in rows if row["texts"] == Sameness.FAULT.value]
    return [f"FAULT: {row['kind']}, prompt {row['prompt']}, γ {row['γ']}: the texts part too far." for row in found]
