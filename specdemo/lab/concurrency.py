"""At how many requests at once does a server's speculation stop paying? The batch experiment, with clients for rows.

Both servers are asked the same requests, so many at a time, one server after the other. A server batches as it likes:
the number is that of the clients.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specdemo.lab.batch import BATCH, SIDES, BatchOptions, batches_of, paying, requests_of
from specdemo.lab.experiment import Row
from specdemo.lab.runs import WARM_UP
from specdemo.race import Lane, Request

if TYPE_CHECKING:
    from specdemo.lab.server_pair import Answers, ServerPair

LANES = dict(zip(SIDES, (Lane.BASELINE, Lane.SPECULATIVE), strict=True))


def run(pair: ServerPair, options: BatchOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """Size by size, all requests of a size from both servers in turn."""
    requests = requests_of(options, options.asked(pair).values())
    for request in requests:
        pair.check(request)
    for n, cell in enumerate(todo):
        if n == 0:
            short = [replace(one, max_new_tokens=min(WARM_UP, one.max_new_tokens)) for one in requests[:2]]
            for lane in Lane:
                yield from pair.at_once(short, lane)
        yield cell | (yield from _measured(pair, batches_of(requests, cell["batch"])))


def _measured(pair: ServerPair, batches: Sequence[Sequence[Request]]) -> Generator[None, None, Row]:
    """Every batch by both servers, the one that goes first changing."""
    done: dict[str, list[Answers]] = {side: [] for side in SIDES}
    for turn, requests in enumerate(batches):
        for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
            done[side].append((yield from pair.at_once(requests, LANES[side])))
    greedy = batches[0][0].params.temperature == 0
    return _row(done) | {"parted": _parted(done) if greedy else None}


def _parted(done: dict[str, list[Answers]]) -> int:
    """Answers that the two servers do not share word by word."""
    plain, drafted = ([one.ids for answers in done[side] for one in answers.metrics] for side in SIDES)
    return sum(one != other for one, other in zip(plain, drafted, strict=True))


def _row(done: dict[str, list[Answers]]) -> Row:
    row: Row = {"requests": sum(len(one.metrics) for one in done[SIDES[0]])}
    for side, answers in done.items():
        latencies = [seconds for one in answers for seconds in one.latencies]
        row |= {
            f"{side} tokens": sum(metrics.decoded for one in answers for metrics in one.metrics),
            f"{side} s": sum(one.seconds for one in answers),
            f"{side} prefill s": sum(one.first_seconds for one in answers),
            f"{side} latency s": sum(latencies) / len(latencies),
            f"{side} longest latency s": max(latencies),
        }
    return row | _drafting(done[SIDES[1]])


def _drafting(answers: Sequence[Answers]) -> Row:
    """What was drafted: as told of each request, else as the server counted; None where neither is of these alone."""
    row: Row = {}
    for name, figure, counter in (
        ("drafted", "drafted", "drafted"),
        ("accepted", "accepted", "accepted"),
        ("drafting passes", "steps_that_drafted", "drafts"),
    ):
        counts = [
            sum(getattr(metrics, figure) for metrics in one.metrics)
            if one.told
            else one.between and getattr(one.between, counter)
            for one in answers
        ]
        row[name] = None if None in counts else sum(counts)
    return row


def findings(rows: Sequence[Row]) -> list[str]:
    """Where speculation stops paying, what many at once are worth, and whether both servers say the same."""
    compared = [row for row in rows if row["parted"] is not None]
    n, parted = (sum(row[name] for row in compared) for name in ("requests", "parted"))
    said = f"{n} answers of the one server compared with the other's: "
    return [*paying(rows), *([said + (f"{parted} differ." if parted else "all are the same.")] if n else [])]


CONCURRENCY = replace(BATCH, run=run, findings=findings)
