"""What is known of two remote lanes beside their steps? Plain facts, as the traces keep them and the page reads them.

Imports nothing that speaks to a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from specdemo.race import Lane
from specdemo.recording import HERE, Known

if TYPE_CHECKING:
    from specdemo.remote.lane import RemoteLane

ARRIVALS = "arrival times, network included"
SERVER = "the servers' own; steps share it as their arrivals did"
UNTOLD = -1  # the id of a drafted token that was not accepted: no server tells it
COUNTED = ("drafts", "drafted", "accepted", "others")  # of a shared server, around a request


class Provenance(StrEnum):
    """How it is known who is responsible for each token."""

    TOLD = "told by the server for this request"
    COUNTED = "from chunks that agree with the server's counters"
    PLAIN = "the server does not speculate"
    UNKNOWN = "approximate: chunks, not engine steps"


def servers(model: str, names: Mapping[Lane, str]) -> dict[str, str]:
    """Of the servers, before a race."""
    return {"target": model, "clock": ARRIVALS} | {f"{lane} server": name for lane, name in names.items()}


def facts(lanes: Mapping[Lane, RemoteLane], server_times: bool) -> dict[str, str]:
    """Of the lanes on servers, after it."""
    model = next(iter(lanes.values())).asked.model
    found = servers(model, {lane: one.endpoint.name for lane, one in lanes.items()})
    found["clock"] = SERVER if server_times else ARRIVALS
    for lane, one in lanes.items():
        found[f"{lane} provenance"] = one.provenance
        if one.retokenised:
            found[f"{lane} token ids"] = "re-tokenised from the text, chunk by chunk"
        if one.endpoint.dropped:
            found[f"{lane} dropped"] = ", ".join(one.endpoint.dropped)
        between = one.between
        if between is not None and between.drafts and one.provenance is Provenance.UNKNOWN:
            counts = (between.drafts, between.drafted, between.accepted, max(between.finished - 1, 0))
            found |= {f"{lane} server {name}": str(n) for name, n in zip(COUNTED, counts, strict=True)}
    return found


def mixed(local: Known, here: Lane, server: Known) -> Known:
    """Of a lane on this machine and one on a server."""
    theirs = {"served model" if name == "target" else name: value for name, value in server.pair.items()}
    return Known(padding=local.padding, pair=local.pair | theirs | {HERE: here.value}, environment=local.environment)
