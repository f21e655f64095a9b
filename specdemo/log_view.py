"""`python -m specdemo log FILE`: what do the runs of a log come to, by kind and tag, and what got worse since when?

Acceptance over several runs is all accepted tokens over all drafted ones; speedups are averaged as they are. An alert
is raised where the last runs are worse than those before a day and hour, by much more than they vary.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from specdemo.exit_codes import REFUSED
from specdemo.request_log import Entry, lines_of, plain
from specdemo.tables import markdown

WINDOW = 10  # runs of a rolling mean
FEWEST = 5  # runs on either side of a drop
LOOKED_AT = 500  # last runs of a group
ERRORS = 3.0  # by so many standard errors a drop must exceed what runs vary
HEAD = ("kind", "tag", "runs", "acceptance", f"last {WINDOW}", "speedup", f"last {WINDOW}", "E", "c")
HEAD += ("plain tokens/s", "speculative tokens/s", "last run")
SETTINGS = ("target", "drafter", "policy", "gamma", "rule", "temperature")  # what may explain a drop
SETTINGS += ("baseline server", "speculative server", "clock")  # of runs on servers


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one kind and tag. recent: over the last WINDOW of them."""

    kind: str
    tag: str
    runs: int
    last: str
    acceptance: float | None
    recent_acceptance: float | None
    speedup: float | None
    recent_speedup: float | None
    tokens_a_pass: float | None
    c: float | None
    plain_rate: float | None
    speculative_rate: float | None


@dataclass(frozen=True, slots=True)
class Alert:
    """A figure of a group was `before` and is `now`, since a time. changed: settings that changed there, too."""

    kind: str
    tag: str
    figure: str
    before: float
    now: float
    since: str
    runs: int
    changed: dict[str, list[str]]

    def __str__(self) -> str:
        tagged = f", tag {self.tag}" if self.tag else ""
        also = "".join(f"; {name} changed from {a} to {b}" for name, (a, b) in self.changed.items())
        return (
            f"{self.figure} of {self.kind}{tagged} dropped from {self.before:.2f} to {self.now:.2f} "
            f"since {self.since} ({self.runs} runs){also}."
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="what `--log` wrote; FILE.1 and so on are read, too")
    parser.add_argument("--json", action="store_true", help="groups and alerts as JSON")


def main(args: argparse.Namespace) -> int:
    """Read, group, show."""
    sys.stdout.reconfigure(errors="replace")
    try:
        entries, foreign = read(args.file)
    except OSError as error:
        print(f"{args.file} could not be read: {error.strerror or error}.", file=sys.stderr)
        return REFUSED
    if not entries:
        print(f"{args.file} holds no runs. app.py and `specdemo run` keep theirs with --log FILE.", file=sys.stderr)
        return REFUSED
    parted = by_kind_and_tag(entries)
    groups = [group(*name, of) for name, of in parted.items()]
    alerts = [alert for name, of in parted.items() for alert in alerts_of(*name, of)]
    if args.json:
        found = {"groups": [asdict(one) for one in groups], "alerts": [asdict(one) for one in alerts]}
        print(json.dumps(found | {"foreign_lines": foreign}, ensure_ascii=False, indent=2))
        return 0
    print(table(groups))
    print()
    print(*(alerts or ["No alert: nothing dropped by more than it varies."]), sep="\n")
    if foreign:
        print(f"{foreign} lines are no entries of this log and were passed over.", file=sys.stderr)
    return 0


# --- Reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[list[Entry], int]:
    """The runs of a log by their time, and how many lines are none; raises OSError."""
    entries, foreign = [], 0
    found = False
    for line in lines_of(path):
        found = True
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if _is_entry(entry):
            entries.append(entry)
        else:
            foreign += bool(line.strip())
    if not found and not path.is_file():
        path.open().close()  # the system's own word for what is wrong
    return sorted(entries, key=lambda entry: entry["time"]), foreign


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in ("time", "kind", "tag"))
        and all(isinstance(entry.get(name), int) for name in ("drafted", "accepted"))
    )


def by_kind_and_tag(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The groups, in the order of their names; a run that failed says nothing of a draft."""
    parted: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.get("outcome") != "failed":
            parted.setdefault((plain(entry["kind"]), plain(entry["tag"])), []).append(entry)
    return dict(sorted(parted.items()))


# --- Figures ----------------------------------------------------------------------------------------------------------


def group(kind: str, tag: str, entries: Sequence[Entry]) -> Group:
    """What these runs come to."""
    recent = entries[-WINDOW:]
    return Group(
        kind,
        tag,
        len(entries),
        plain(entries[-1]["time"]),
        acceptance(entries),
        acceptance(recent),
        _mean(entries, "speedup"),
        _mean(recent, "speedup"),
        _mean(recent, "E"),
        _mean(recent, "c"),
        *(_mean([_lane(entry, lane) for entry in recent], "tokens/s") for lane in ("baseline", "speculative")),
    )


def acceptance(entries: Sequence[Entry]) -> float | None:
    """Accepted over drafted tokens; None where none was drafted."""
    drafted = sum(entry["drafted"] for entry in entries)
    return sum(entry["accepted"] for entry in entries) / drafted if drafted else None


def _lane(entry: Entry, lane: str) -> Entry:
    lanes = entry.get("lanes")
    found = lanes.get(lane) if isinstance(lanes, dict) else None
    return found if isinstance(found, dict) else {}


def _mean(entries: Sequence[Entry], name: str) -> float | None:
    values = [value for entry in entries if (value := _figure(entry, name)) is not None]
    return fmean(values) if values else None


def _figure(entry: Entry, name: str) -> float | None:
    value = entry.get(name)
    real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if real else None


def table(groups: Sequence[Group]) -> str:
    """A line for each group."""
    return markdown(HEAD, cells(groups))


def cells(groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """What stands under HEAD; recent figures are those of a group's last WINDOW runs."""
    return [
        (
            one.kind,
            one.tag or "–",
            str(one.runs),
            *(_shown(value) for value in (one.acceptance, one.recent_acceptance)),
            *(_shown(value, "×") for value in (one.speedup, one.recent_speedup)),
            *(_shown(value) for value in (one.tokens_a_pass, one.c)),
            *(_shown(value, digits=1) for value in (one.plain_rate, one.speculative_rate)),
            one.last[:16],
        )
        for one in groups
    ]


def _shown(value: float | None, unit: str = "", digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


# --- Alerts -----------------------------------------------------------------------------------------------------------


def alerts_of(kind: str, tag: str, entries: Sequence[Entry]) -> list[Alert]:
    """What got worse in a group and has stayed so: acceptance by 0.15 or more, the speedup by a fifth."""
    found = []
    for figure, name, least in (
        ("Acceptance", "acceptance", lambda before: 0.15),
        ("The speedup", "speedup", lambda before: 0.2 * before),
    ):
        told = [entry for entry in entries if _figure(entry, name) is not None][-LOOKED_AT:]
        values = [_figure(entry, name) for entry in told]
        at = _drop(values)
        if at is None:
            continue
        before, now = fmean(values[:at]), fmean(values[at:])
        recently = fmean(values[max(at, len(values) - WINDOW) :])
        if before - max(now, recently) >= least(before):  # what has recovered needs nobody
            changed = _changed(told[:at], told[at:])
            since = plain(told[at]["time"])[:19].replace("T", " ")
            found.append(Alert(kind, tag, figure, before, now, since, len(told) - at, changed))
    return found


def _drop(values: Sequence[float]) -> int | None:
    """Where one level best becomes a lower one, by more than the values vary; None where there is no such place."""
    best, at = 0.0, None
    n, sums, squares = len(values), [0.0, *accumulate(values)], [0.0, *accumulate(value**2 for value in values)]

    def level(low: int, high: int) -> tuple[float, float]:
        """The mean of these, and the square of its standard error."""
        runs = high - low
        mean = (sums[high] - sums[low]) / runs
        return mean, max(0.0, (squares[high] - squares[low]) / runs - mean**2) / (runs - 1)

    for i in range(FEWEST, n - FEWEST + 1):
        (before, error_before), (after, error_after) = level(0, i), level(i, n)
        weight = (before - after) * math.sqrt(i * (n - i))  # least squares
        if before - after > ERRORS * math.sqrt(error_before + error_after) and weight > best:
            best, at = weight, i
    return at


def _changed(before: Sequence[Entry], after: Sequence[Entry]) -> dict[str, list[str]]:
    """Settings whose usual value is another since then."""
    pairs = {name: [_usual(entries, name) for entries in (before, after)] for name in SETTINGS}
    return {name: both for name, both in pairs.items() if both[0] != both[1]}


def _usual(entries: Sequence[Entry], name: str) -> str:
    values = Counter(plain(str(_setting(entry, name))) for entry in entries)
    return values.most_common(1)[0][0]


def _setting(entry: Entry, name: str) -> Any:
    sampling = entry.get("sampling")
    return sampling.get(name) if name == "temperature" and isinstance(sampling, dict) else entry.get(name, "–")
