"""What does the page's script draw of a result? Table, heat maps, charts and findings, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specdemo.lab.ballot import FEWEST, differs, is_open, tally
from specdemo.lab.chart import Chart, Mark
from specdemo.lab.experiment import Experiment, Row, Told
from specdemo.lab.heat_map import HeatMap
from specdemo.lab.result import Result

LINES_SHOWN = 300  # of a table; the files have all rows


def drawn(experiment: Experiment, result: Result) -> dict[str, Any]:
    """A result with what its rows say so far."""
    return {
        "experiment": experiment.name,
        "done": len(result.rows),
        "cells": result.cells,
        "table": _table(experiment.table(result.rows)),
        "maps": list(map(_map, experiment.maps(result.rows))),
        "charts": list(map(_chart, experiment.charts(result.rows))),
        "findings": result.findings,
        "vote": _vote(result.rows) if experiment.pairs else None,
        "facts": [f"{name} {value}" for name, value in (result.pair | result.environment).items()],
    }


def _table(lines: Sequence[Told]) -> dict[str, Any]:
    head = list(dict.fromkeys(name for line in lines for name in line))
    cells = [[line.get(name, "–") for name in head] for line in lines[:LINES_SHOWN]]
    return {"head": head, "lines": cells, "left": max(0, len(lines) - LINES_SHOWN)}


def _vote(rows: Sequence[Row]) -> dict[str, Any]:
    """How many pairs of texts there are to vote on, and what the votes say so far."""
    votes = tally(rows)
    told = votes and asdict(votes) | {"p": f"{votes.p:.3g}", "n": votes.preferring, "fewest": FEWEST}
    return {"of": len(rows), "differ": sum(map(differs, rows)), "open": sum(map(is_open, rows)), "tally": told}


def _map(heat_map: HeatMap) -> dict[str, Any]:
    values = [[_rounded(value) for value in line] for line in heat_map.values]
    return asdict(heat_map) | {"values": values, "best": heat_map.best}


def _chart(chart: Chart) -> dict[str, Any]:
    return asdict(chart) | {"marks": [[_mark(mark) for mark in series] for series in chart.marks]}


def _mark(mark: Mark | None) -> list[float | None] | None:
    return None if mark is None else [_rounded(mark.value), _rounded(mark.low), _rounded(mark.high)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
