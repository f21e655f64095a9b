"""The blind vote on the page: what its script is told, which is never whose text stands where before the reveal."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from specdemo.lab.ballot import Ballot, Choice
from specdemo.lab.experiment import LabRefused
from specdemo.ui.lab_drawn import drawn
from specdemo.ui.lab_kept import Kept

LOCK = threading.Lock()  # two clicks may arrive at once; a vote takes microseconds


def voted(kept: Kept, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What follows from what a visitor did: the next pair, or, after the last one, which was which.

    asked: {"do": "begin"}, {"do": "cast", "at": number, "choice": ...} or {"do": "reveal"}; anything else, and a vote
    on a pair that had its vote already, shows the pair that is due.
    """
    with LOCK:
        ballot = kept.ballot
        if ballot is None or asked.get("do") == "begin":
            ballot = kept.ballot = Ballot(kept.result.rows, _questions(kept))
        elif asked.get("do") == "reveal":
            return _revealed(kept, ballot)
        elif asked.get("do") == "cast" and asked.get("at") == ballot.at and asked.get("choice") in list(Choice):
            ballot.cast(Choice(asked["choice"]))
        if ballot.sheet is None:
            return _revealed(kept, ballot)
        return {"sheet": asdict(ballot.sheet), "at": ballot.at, "of": len(ballot)}


def _questions(kept: Kept) -> dict[tuple[str, str], str]:
    try:
        return kept.asked.options.questions()
    except LabRefused:  # answers can be compared without what was asked
        return {}


def _revealed(kept: Kept, ballot: Ballot) -> dict[str, Any]:
    kept.ballot = None
    result, experiment = kept.result, kept.asked.experiment
    result.findings = experiment.findings(result.rows)
    return {"revealed": [asdict(one) for one in ballot.reveal()], "result": drawn(experiment, result)}
