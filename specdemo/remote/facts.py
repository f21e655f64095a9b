"""What is known of two remote lanes beside their steps? Plain facts, as the traces keep them and the page reads them.

Imports nothing that speaks to a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from specdemo.race import Lane
from specdemo.recording import HERE, Known
from specdemo.remote.settings import Settings, text_of

if TYPE_CHECKING:
    from specdemo.remote.lane import RemoteLane

ARRIVALS = "arrival times, network included"
SERVER = "the servers' own; steps share it as their arrivals did"
EITHER = "the servers' own where all of them tell it, else arrival times"  # until they have answered
RETOKENISED = "re-tokenised from the text, chunk by chunk"
TEMPLATE = "the chat template"  # among what was dropped: the plain prompt was read
NO_IDS = "none: the server gave text alone, and its tokenizer did not answer"
COUNTED = ("drafts", "drafted", "accepted", "others")  # of a shared server, around a request


class Provenance(StrEnum):
    """How it is known who is responsible for each token."""

    TOLD = "told by the server for this request"
    COUNTED = "from chunks that agree with the server's counters"
    PLAIN = "the server does not speculate"
    UNKNOWN = "approximate: chunks, not engine steps"


def servers(model: str, names: Mapping[Lane, str], settings: Mapping[Lane, Settings]) -> dict[str, str]:
    """Of the servers, before a race."""
    found = {"target": model, "clock": EITHER} | {f"{lane} server": name for lane, name in names.items()}
    return found | {f"{lane} settings": text_of(own) for lane, own in settings.items() if own}


def one_server(pair: Mapping[str, str]) -> bool:
    """Whether these facts are of two lanes on one server."""
    return len({pair.get(f"{lane} server", str(lane)) for lane in Lane}) == 1


def facts(lanes: Mapping[Lane, RemoteLane], server_times: bool) -> dict[str, str]:
    """Of the lanes on servers, after it."""
    model = next(iter(lanes.values())).asked.model
    names = {lane: one.endpoint.name for lane, one in lanes.items()}
    found = servers(model, names, {lane: one.asked.own for lane, one in lanes.items()})
    found["clock"] = SERVER if server_times else ARRIVALS
    for lane, one in lanes.items():
        found[f"{lane} provenance"] = one.provenance
        if one.retokenised or one.untold:
            found[f"{lane} token ids"] = RETOKENISED if one.retokenised else NO_IDS
        if one.dropped:
            found[f"{lane} dropped"] = ", ".join(one.dropped)
        between = one.between
        if between is not None and between.drafts and one.provenance is Provenance.UNKNOWN:
            counts = (between.drafts, between.drafted, between.accepted, max(between.finished - 1, 0))
            found |= {f"{lane} server {name}": str(n) for name, n in zip(COUNTED, counts, strict=True)}
            found[f"{lane} server accepted at"] = ", ".join(map(str, between.accepted_at))
    return found


def mixed(local: Known, here: Lane, server: Known) -> Known:
    """Of a lane on this machine and one on a server."""
    theirs = {"served model" if name == "target" else name: value for name, value in server.pair.items()}
    return Known(padding=local.padding, pair=local.pair | theirs | {HERE: here.value}, environment=local.environment)
