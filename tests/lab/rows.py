"""Rows of an experiment: all that it measures in a world, or made of chosen counts."""

from __future__ import annotations

from typing import Any

from specdemo.lab.experiment import Experiment, Row, missing
from specdemo.lab.pooled import COUNTS
from tests.lab.worlds import World

PLAIN = {"answers": 1, "prefill s": 1.0, "plain answers": 1, "plain prefill s": 1.0}
PLAIN |= {"plain tokens": 100, "plain passes": 100, "plain s": 100.0}


def rows_of(experiment: Experiment, world: World, options: Any) -> list[Row]:
    """Every row that the options ask for."""
    cells = experiment.cells(options)
    rows = [row for row in experiment.run(world, options, cells) if row is not None]
    assert not missing(cells, rows) and len(rows) == len(cells)
    return rows


def made(cell: Row, **counts: float) -> Row:
    """A row beside a plain lane that wrote a hundred tokens, one a second; counts by name, with _ for spaces."""
    named = {name.replace("_", " "): value for name, value in counts.items()}
    assert named.keys() <= set(COUNTS)
    return cell | dict.fromkeys(COUNTS, 0) | PLAIN | named | {"texts": "identical"}
