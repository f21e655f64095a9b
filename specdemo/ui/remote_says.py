"""What has to be said of two lanes on servers: the verdict without what no server tells, whose clock, how sure?

Read from the facts that the race's record keeps, so that a replay says the same.
"""

from __future__ import annotations

from specdemo.metrics import Comparison, Speed
from specdemo.race import Lane
from specdemo.recording import Known, RaceRecord
from specdemo.remote.facts import COUNTED, SERVER, Provenance
from specdemo.ui import figures
from specdemo.ui.text import Sentence

PROVENANCES = {one.value: f"remote.{one.name.lower()}" for one in Provenance}


def verdict(known: Known, comparison: Comparison, *, over: bool) -> Sentence | None:
    """In place of the sentence that tells drafting from verifying; None where that sentence is not about it."""
    speed = comparison.speed
    if speed is Speed.NO_SPECULATION and over:
        return ("remote.none", {})
    if speed not in (Speed.FASTER, Speed.EQUAL, Speed.SLOWER):
        return None
    speedup = {"speedup": figures.times(comparison.speedup or 0)}
    if known.here is not None:
        lanes = {"here": f"@{known.here}", "server": _server(known)}
        return (f"remote.mixed{'' if over else '.live'}", speedup | lanes)
    if not comparison.drafts_told or not over:
        return (f"remote.{'' if over else 'live.'}{speed}", speedup)
    step = {
        "ms": figures.milliseconds(comparison.verify_seconds_per_pass or 0),
        "tokens": f"{comparison.tokens_per_target_pass or 0:.2f}",
        "needed": f"{comparison.break_even_tokens_per_pass or 0:.2f}",
    }
    return (f"remote.told.{speed}", speedup | step)


def more(record: RaceRecord) -> list[Sentence]:
    """Once it is over: the clock, who wrote the tokens, what a server did not know."""
    pair = record.known.pair
    said: list[Sentence] = [("remote.clock.server" if pair.get("clock") == SERVER else "remote.clock.arrivals", {})]
    how = PROVENANCES.get(pair.get(f"{Lane.SPECULATIVE} provenance", ""))
    if how is not None:
        said.append((how, {}))
    for lane in Lane:
        name = {"lane": f"@{lane}"}
        counts = [pair.get(f"{lane} server {name}", "") for name in COUNTED]
        if all(count.isdecimal() for count in counts):
            said.append(("remote.shared", name | _shared(*map(int, counts))))
        if f"{lane} token ids" in pair:
            said.append(("remote.retokenised", name))
        if f"{lane} dropped" in pair:
            said.append(("remote.dropped", name | {"what": pair[f"{lane} dropped"]}))
    if record.metrics(Lane.BASELINE).drafted or f"{Lane.BASELINE} server drafts" in pair:
        said.append(("remote.baseline", {}))
    return said


def clocks(known: Known) -> str:
    """The key of the note on how the lanes share time."""
    return "remote.mixed.clocks" if known.here else "remote.clocks" if known.remote else "clocks"


def _server(known: Known) -> str:
    """Where the lane runs that does not run here."""
    return next((known.pair[name] for lane in Lane if (name := f"{lane} server") in known.pair), "")


def _shared(drafts: int, drafted: int, accepted: int, others: int) -> dict[str, str]:
    return {
        "drafted": f"{drafted:,}",
        "share": figures.share(accepted / drafted) if drafted else "–",
        "length": f"{1 + accepted / drafts:.2f}" if drafts else "–",
        "others": f"{others:,}",
    }
