"""How are two servers asked by an experiment, as a pair on this machine is? One lane at a time, or several requests.

The clock of a lane is the servers' own where the first answers of both told it, else that of arrivals, and that of
several requests always arrivals. Texts that part are not weighed: no server gives its logits.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdemo.lab.experiment import LabRefused
from specdemo.metrics import LaneMetrics
from specdemo.race import Lane, Request
from specdemo.recording import Known
from specdemo.remote.facts import Provenance
from specdemo.remote.faults import RemoteFault

if TYPE_CHECKING:
    from specdemo.decoding.steps import Step
    from specdemo.remote.counters import Counters
    from specdemo.remote.lane import RemoteLane
    from specdemo.remote.racing import RemotePair


@dataclass(frozen=True, slots=True)
class Answers:
    """What several requests at once came to. seconds: from the first token of any to the last one of all.

    first_seconds: until that first token. latencies: of each request, until its own last token. between: what the
    server counted meanwhile; None where it tells nothing, or had other requests, too.
    """

    metrics: list[LaneMetrics]
    seconds: float
    first_seconds: float
    latencies: list[float]
    told: bool
    between: Counters | None


class ServerPair:
    """Two servers in a pair's place. provenance: of the last speculative lane."""

    padding = 1.0

    def __init__(self, pair: RemotePair) -> None:
        self._pair = pair
        self._tells_times: dict[Lane, bool] = {}  # whether the first answer of a lane came with its server's times
        self.provenance = Provenance.UNKNOWN

    @property
    def server_times(self) -> bool:
        """Whether lanes are on the servers' clock; all of them, once each has answered (see runs.warm_up)."""
        return all(self._tells_times.get(lane, False) for lane in Lane)

    @property
    def known(self) -> Known:
        """What can be said before anything is measured."""
        return self._pair.known

    def close(self) -> None:
        """Let go of the connections."""
        self._pair.close()

    def prompt_ids(self, text: str) -> tuple[int, ...]:
        """As both servers read it; raises LabRefused, RemoteFault."""
        from specdemo.remote.racing import said

        ids = self._pair.encode(said(text))
        if not ids:
            raise LabRefused(
                "The servers cannot say which tokens a prompt has (/tokenize), so nothing is measured: take vLLM's."
            )
        return ids

    def check(self, request: Request) -> None:
        """Raises RequestRefused, RemoteFault for what they cannot run."""
        from specdemo.remote.racing import check

        for lane in Lane:
            self._pair.asked(check(request), lane)

    def steps(self, request: Request, which: Lane) -> Iterator[Step | None]:
        """A lane's Steps, once they are known; None while they arrive. Raises RemoteFault."""
        from specdemo.remote.racing import together

        lane = self._lane(request, which, alone=True)
        for _ in together([lane]):
            yield None
        _refuse_broken([lane])
        self._tells_times.setdefault(which, lane.times is not None)
        if self.server_times and lane.times is None:
            raise RemoteFault(
                f"The server at {lane.endpoint.name} told its own times of earlier answers and not of this one: run "
                "again, to go on by the clock of arrivals."
            )
        written = lane.settle(self.server_times)
        _refuse_broken([lane])  # of text without ids nothing is counted
        if which is Lane.SPECULATIVE:
            self.provenance = lane.provenance
        yield from (wrote.step for wrote in written)

    def at_once(self, requests: Sequence[Request], which: Lane) -> Generator[None, None, Answers]:
        """All requests to one server at the same time. Raises RemoteFault."""
        from specdemo.remote.counters import difference
        from specdemo.remote.racing import together

        lanes = [self._lane(request, which, alone=False) for request in requests]
        endpoint = lanes[0].endpoint
        before = endpoint.counters()
        for _ in together(lanes):
            yield
        _refuse_broken(lanes)
        after = endpoint.counters()
        between = difference(before, after) if before and after else None
        metrics = [LaneMetrics.of(wrote.step for wrote in lane.settle(server_times=False)) for lane in lanes]
        _refuse_broken(lanes)  # of text without ids nothing is counted
        begun = min(lane.began for lane in lanes)
        firsts = [lane.began + lane.arrivals[0].seconds for lane in lanes]
        lasts = [lane.began + sum(arrival.seconds for arrival in lane.arrivals) for lane in lanes]
        return Answers(
            metrics,
            seconds=max(lasts) - min(firsts),
            first_seconds=min(firsts) - begun,
            latencies=[last - lane.began for last, lane in zip(lasts, lanes, strict=True)],
            told=all(lane.provenance is Provenance.TOLD for lane in lanes),
            between=between if between and _alone(between, metrics) else None,
        )

    def _lane(self, request: Request, which: Lane, *, alone: bool) -> RemoteLane:
        from specdemo.remote.lane import RemoteLane

        asked = self._pair.asked(request, which)
        return RemoteLane(which, self._pair.endpoints[which], asked, watched=alone, spelled=False)


def _alone(between: Counters, metrics: Sequence[LaneMetrics]) -> bool:
    """Whether what a server counted can be of these requests alone: another client's may still be going."""
    tokens = sum(one.tokens for one in metrics)
    return between.finished == len(metrics) and max(between.drafts, between.accepted) <= tokens


def _refuse_broken(lanes: Sequence[RemoteLane]) -> None:
    for lane in lanes:
        if lane.fault:
            raise RemoteFault(lane.fault)
        if not lane.arrivals:
            raise RemoteFault(f"The server at {lane.endpoint.name} answered without a token: see what it logged.")
