"""Which experiments run over two servers? Those whose lanes a server has: by the same cells, rows, tables and charts.

How long a draft is, by which rule it is judged and who drafts is the servers' own: no option here, and one value in
every cell. A server does not tell drafting from verifying, so that what a step costs is its whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields, make_dataclass
from typing import Any

from specdemo.decoding.steps import DraftLength, Rule
from specdemo.lab.concurrency import CONCURRENCY
from specdemo.lab.experiment import Experiment, LabRefused, Row, Told
from specdemo.lab.pooled import COST, ROUND, VERIFICATION
from specdemo.lab.prompts import PromptOptions
from specdemo.lab.server_pair import ServerPair
from specdemo.lab.sweep import SWEEP
from specdemo.lab.tasks import TASKS
from specdemo.option_names import option
from specdemo.remote.facts import ARRIVALS, SERVER, Provenance

THEIRS = "of the server"  # the draft length in a row
ONE_VALUE: dict[str, Any] = {
    "gammas": (0,),
    "gamma": 1,
    "policies": (DraftLength.FIXED,),
    "rule": Rule.REJECTION,
    "rules": (Rule.REJECTION,),
    "draft_temperatures": (None,),
}  # of the options that are the servers' own


def served(experiment: Experiment) -> Experiment:
    """The experiment over a ServerPair."""
    own = [one for one in fields(experiment.options) if one.name not in ONE_VALUE]
    made = [(one.name, one.type, field(default=one.default, metadata=one.metadata)) for one in own]
    options = make_dataclass(
        f"Served{experiment.options.__name__}", made, bases=(PromptOptions,), frozen=True, slots=True
    )

    def whole(asked: Any) -> Any:
        known = {one.name: getattr(asked, one.name) for one in own}
        theirs = {one.name: ONE_VALUE[one.name] for one in fields(experiment.options) if one.name in ONE_VALUE}
        return experiment.options(**known, **theirs)

    def cells(asked: Any) -> list[Row]:
        return [_named(cell) for cell in experiment.cells(whole(asked))]

    def run(pair: ServerPair, asked: Any, todo: Sequence[Row]) -> Iterator[Row | None]:
        numbered = [cell | {"γ": 0} if "γ" in cell else cell for cell in todo]
        for row in experiment.run(pair, whole(asked), numbered):
            yield row and _named(row) | _how(row, pair)

    return Experiment(
        experiment.name,
        experiment.about,
        options,
        cells,
        run,
        lambda rows: [_line(line) for line in experiment.table(rows)],
        lambda rows: [*experiment.findings(rows), *untold(rows), *clock(rows)],
        experiment.maps,
        experiment.charts,
        served=True,
    )


def untold(rows: Sequence[Row]) -> list[str]:
    """In how many answers nobody told who wrote a token."""
    n = sum(row.get("told") == Provenance.UNKNOWN for row in rows)
    if not n:
        return []
    return [
        f"In {n} of {len(rows)} rows no server told who wrote each token: their passes are chunks of the stream, and "
        "acceptance is that of the other rows."
    ]


def clock(rows: Sequence[Row]) -> list[str]:
    """Whose clock it was, which the first answers tell."""
    found = Counter(row["clock"] for row in rows if "clock" in row)
    return [f"Clock of {n} of {len(rows)} rows: {name}." for name, n in found.items()]


def refuse_drafts(
    experiment: Experiment, asked: dict[str, Any], usual: Callable[[str], Any] = lambda name: None
) -> None:
    """Raises LabRefused where an option is given that is the servers' own. usual: what it is where it is not given."""
    names = [one.name for one in fields(experiment.options) if one.name in ONE_VALUE]
    given = [name for name in names if asked.get(name) and asked[name] != usual(name)]
    if given:
        raise LabRefused(
            f"{option(given[0])}: how servers draft is their own. Leave it out, and set it where they are started."
        )


def _named(row: Row) -> Row:
    return row | {"γ": THEIRS} if "γ" in row else row


def _how(row: Row, pair: ServerPair) -> Row:
    """told: how it is known who wrote a lane's tokens. clock: whose; that of many requests is arrivals (ServerPair)."""
    if "γ" not in row:
        return {"clock": ARRIVALS}
    return {"told": pair.provenance.value, "clock": SERVER if pair.server_times else ARRIVALS}


def _line(line: Told) -> Told:
    """Without a draft's cost, which no server tells: what was taken for a verification is the whole step.

    The policy is the server's, as the draft length is.
    """
    told = {ROUND if name == VERIFICATION else name: value for name, value in line.items() if name != COST}
    return told | {"policy": THEIRS} if "policy" in told else told


SERVED: dict[str, Experiment] = {one.name: served(one) for one in (TASKS, SWEEP, CONCURRENCY)}
