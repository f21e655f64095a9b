"""What has to be said of two remote lanes beside their figures: by whose clock, how sure, and what went wrong?"""

from __future__ import annotations

from specdemo import terminal
from specdemo.metrics import Speed
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.remote import racing
from specdemo.remote.counters import Counters
from specdemo.remote.facts import Provenance
from specdemo.remote.lane import RemoteLane
from specdemo.remote.racing import AnyLane


def verdict(record: RaceRecord, lanes: dict[Lane, AnyLane]) -> list[str]:
    """The speedup and whether the texts are the same; nothing of drafts where nobody told of them."""
    comparison = record.comparison
    sameness = terminal.sameness(comparison)
    theirs = racing.served(lanes)
    if any(one.fault for one in theirs.values()):
        return ["A lane did not come to its end: no speedup is shown."]
    if comparison.speedup is None or comparison.speed is Speed.FAULT:
        return terminal.sentences(comparison)
    ratio = terminal.times(comparison.speedup)
    if record.known.here is not None:
        other = next(iter(theirs.values())).endpoint.name
        return [
            f"Not like for like, {ratio}: the {record.known.here} lane ran on this machine, the other one on {other}.",
            sameness,
        ]
    slower = comparison.speedup < 1
    how = f"Slower, {ratio}" if slower else f"{ratio} faster"
    if theirs[Lane.SPECULATIVE].provenance is Provenance.UNKNOWN:
        return [f"{how}: which tokens were drafted is not known.", sameness]
    if not comparison.drafted:
        return ["No speculation: the server drafted nothing for this request. No speedup is shown.", sameness]
    tokens = f"{comparison.tokens_per_target_pass:.2f}"
    return [f"{how}: each step of the server, its draft included, produced {tokens} tokens.", sameness]


def notes(record: RaceRecord, lanes: dict[Lane, AnyLane]) -> list[str]:
    """What has to be known of the figures."""
    theirs = racing.served(lanes)
    said = [f"{lane.value.capitalize()}: {one.fault}" for lane, one in theirs.items() if one.fault]
    said.append(f"Clock: {record.known.pair['clock']}.")
    for lane, one in theirs.items():
        name = f"{lane.value.capitalize()} ({one.endpoint.name})"
        if one.arrivals:
            said.append(f"{name}: who wrote each token: {one.provenance}.")
        if one.between and one.between.drafts and one.provenance is Provenance.UNKNOWN:
            said.append(f"{name}: {shared(one.between)}.")
        if one.provenance is Provenance.PLAIN and (gathered := _gathered(one)):
            said.append(f"{name}: {gathered} chunks held several steps, so that there were more passes than counted.")
        if one.retokenised:
            said.append(f"{name}: gave no token ids; they are its tokenizer's, chunk by chunk, and may be others.")
        if one.endpoint.dropped:
            said.append(f"{name}: does not know, and was not asked for, {', '.join(one.endpoint.dropped)}.")
    baseline = theirs.get(Lane.BASELINE)
    if baseline and (record.lanes[Lane.BASELINE].metrics.drafted or (baseline.between or _NONE).drafts):
        said.append("The baseline's server speculates: start it without --speculative-config to compare with plain.")
    return said


def shared(between: Counters) -> str:
    """The server's counters around a request, which speak of all its requests."""
    rate = f"{between.accepted / between.drafted:.0%}" if between.drafted else "–"
    length = f"{1 + between.accepted / between.drafts:.2f}" if between.drafts else "–"
    places = ", ".join(f"{at / between.drafts:.0%}" for at in between.accepted_at) if between.drafts else ""
    others = max(between.finished - 1, 0)
    return (
        f"shared-server figures, of all its requests meanwhile ({others} others ended): {between.drafted} drafted, "
        f"{rate} accepted, mean acceptance length {length}" + (f", by position {places}" if places else "")
    )


_NONE = Counters(False, 0, 0, 0, (), 0)


def _gathered(one: RemoteLane) -> int:
    return sum(len(arrival.ids or ()) > 1 for arrival in one.arrivals)
