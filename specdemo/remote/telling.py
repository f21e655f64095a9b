"""What has to be said of a race over servers, and in which order? Read from its record, so that a replay says the same.

report.py words it for a terminal, ui/remote_says.py for the page.
"""

from __future__ import annotations

from typing import Any

from specdemo.decoding.steps import Stop
from specdemo.metrics import COMPARED, Comparison, Speed
from specdemo.race import Lane, Mode
from specdemo.recording import Known, RaceRecord
from specdemo.remote.facts import COUNTED, NO_IDS, SERVER, TEMPLATE, Provenance, one_server

Fact = tuple[str, dict[str, Any]]
"""A name and its values, as numbers; `lane` among them is the one that it is about, on `server`."""

LONGEST_COUNT = 18  # digits of a count in a file: no server counted further


def broken(record: RaceRecord) -> bool:
    """Whether a lane that is over has no whole answer, or one whose tokens nobody counted: nothing is concluded."""
    lanes = [record.metrics(lane) for lane in Lane]
    return any(not one.steps or one.stop is Stop.FAULT or one.told_tokens is None for one in lanes)


def verdict(record: RaceRecord, comparison: Comparison, *, over: bool) -> Fact | None:
    """In place of the sentence that tells drafting from verifying; None where that sentence is not about it."""
    speed, known = comparison.speed, record.known
    if over and broken(record):
        return "broken", {}
    if over and speed is Speed.NO_SPECULATION:
        return "none", {}
    if speed not in COMPARED:
        return None
    values: dict[str, Any] = {"speedup": comparison.speedup}
    if known.here is not None:
        return "mixed" if over else "mixed.live", values | {"here": known.here, "server": _server(known)}
    if not over:
        return f"live.{speed}", values
    if not comparison.drafts_told:
        return f"{speed}", values
    return f"told.{speed}", values | {
        "step": comparison.verify_seconds_per_pass,
        "tokens": comparison.tokens_per_target_pass,
        "needed": comparison.break_even_tokens_per_pass,
    }


def notes(record: RaceRecord) -> list[Fact]:
    """What has to be known of the figures, once it is over."""
    pair = record.known.pair
    found: list[Fact] = [("clock.server" if pair.get("clock") == SERVER else "clock.arrivals", {})]
    for lane in Lane:
        server = pair.get(f"{lane} server", "")
        found += [(name, {"lane": lane, "server": server} | values) for name, values in _of(lane, record)]
    drafted = record.metrics(Lane.BASELINE).drafted
    if one_server(pair):
        found.append(("one.raced" if record.request.mode is Mode.RACED else "one", {}))
        found += [("one.baseline", {})] if drafted else []
    elif drafted or f"{Lane.BASELINE} server drafts" in pair:
        found.append(("baseline", {}))
    return found


def _of(lane: Lane, record: RaceRecord) -> list[Fact]:
    """Of one lane: its own settings, who wrote its tokens, what was not told. A baseline is expected to be plain."""
    pair, steps = record.known.pair, record.lanes[lane].steps
    provenance = pair.get(f"{lane} provenance", "")
    found: list[Fact] = []
    if f"{lane} settings" in pair:
        found.append(("settings.note", {"settings": pair[f"{lane} settings"]}))
    if steps and provenance in list(Provenance) and (lane, provenance) != (Lane.BASELINE, Provenance.PLAIN):
        found.append((Provenance(provenance).name.lower(), {}))
    counts = [_count(pair.get(f"{lane} server {name}", "")) for name in COUNTED]
    if None not in counts and counts[0]:
        found.append(("shared", _shared(*counts, pair.get(f"{lane} server accepted at", ""))))
    gathered = sum(len(step.tokens) > 1 for step in steps)
    if provenance == Provenance.PLAIN and gathered:
        found.append(("gathered", {"n": gathered}))
    if f"{lane} token ids" in pair:
        found.append(("textonly" if pair[f"{lane} token ids"] == NO_IDS else "retokenised", {}))
    dropped = pair[f"{lane} dropped"].split(", ") if f"{lane} dropped" in pair else []
    if TEMPLATE in dropped:
        found.append(("untemplated", {}))
    if others := [one for one in dropped if one != TEMPLATE]:
        found.append(("dropped", {"what": ", ".join(others)}))
    return found


def _shared(drafts: int, drafted: int, accepted: int, others: int, at: str) -> dict[str, Any]:
    """Counted around a request, of all requests of its server."""
    return {
        "others": others,
        "drafted": drafted,
        "share": accepted / drafted if drafted else None,
        "length": 1 + accepted / drafts,
        "at": [n / drafts for one in at.split(", ") if (n := _count(one)) is not None],
    }


def _server(known: Known) -> str:
    """Where the lane runs that does not run here."""
    return next((known.pair[name] for lane in Lane if (name := f"{lane} server") in known.pair), "")


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= LONGEST_COUNT else None
