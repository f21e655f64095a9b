"""What is an experiment? Options, the cells they ask for, a generator that fills them, and what the rows say.

A cell is a flat dict of what is set (kind, prompt, γ, ...); a row is the cell and what was measured there, in one flat
dict of plain values. Which cells there are is known from the options alone, so progress has a total, and a run that
was interrupted goes on with the cells whose rows are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from specdemo.lab.chart import Chart
from specdemo.lab.heat_map import HeatMap

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

Plain = str | int | float | bool | None
Row = dict[str, Plain]
Options = TypeVar("Options")
Told = dict[str, str]
"""A line of the table that a person reads: each figure as it is shown, under its heading."""


class LabRefused(ValueError):
    """Nothing is measured; the message is a sentence for a person, with the next step."""


def no_maps(rows: Sequence[Row]) -> list[HeatMap]:
    """Of an experiment that draws none."""
    return []


def no_charts(rows: Sequence[Row]) -> list[Chart]:
    """Of an experiment that draws none."""
    return []


@dataclass(frozen=True, slots=True)
class Experiment(Generic[Options]):
    """name: on the command line. about: what it answers, in a sentence. options: a frozen dataclass (see options.py).

    cells: all that the options ask for; raises LabRefused. run: the given cells' rows, each as it is done, in any
    order, and None after every step of a lane, so that whoever closes the generator stops it within a step; it refuses
    what the pair cannot run before it measures anything. table, findings, maps, charts: what rows say, however few.
    served: whether it takes a ServerPair in a pair's place.
    pairs: whether a row holds two texts, "plain text" and "drafted text", that can be voted on (see ballot.py).
    """

    name: str
    about: str
    options: type[Options]
    cells: Callable[[Options], list[Row]]
    run: Callable[[Pair, Options, Sequence[Row]], Iterator[Row | None]]
    table: Callable[[Sequence[Row]], list[Told]]
    findings: Callable[[Sequence[Row]], list[str]]
    maps: Callable[[Sequence[Row]], list[HeatMap]] = no_maps
    charts: Callable[[Sequence[Row]], list[Chart]] = no_charts
    pairs: bool = False
    served: bool = False


def missing(cells: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """The cells that have no row yet."""
    settings = {tuple(cell) for cell in cells}
    done = {(names, tuple(row.get(name) for name in names)) for names in settings for row in rows}
    return [cell for cell in cells if (tuple(cell), tuple(cell.values())) not in done]
