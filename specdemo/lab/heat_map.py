"""A figure over two settings, as a table whose cells are shaded: data for the page, and drawn for a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

SHADES = ("on grey11", "on grey23", "on grey35", "on dark_green", "on green4")  # lowest to highest
BEST = "★"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """values[line][column], None where nothing was measured. down, across: what lines and columns are."""

    title: str
    down: str
    across: str
    lines: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]

    @property
    def best(self) -> tuple[int, int] | None:
        """Line and column of the highest value; the first of equals."""
        cells = [(v, -i, -j) for i, line in enumerate(self.values) for j, v in enumerate(line) if v is not None]
        if not cells:
            return None
        _, i, j = max(cells)
        return -i, -j


def draw(heat_map: HeatMap) -> Table:
    """For a terminal: the shade says how high, a star marks the best, and the number stands there anyway."""
    table = Table(title=heat_map.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(f"{heat_map.down} \\ {heat_map.across}", justify="right")
    for column in heat_map.columns:
        table.add_column(column, justify="right")
    known = [value for line in heat_map.values for value in line if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    for i, (name, line) in enumerate(zip(heat_map.lines, heat_map.values, strict=True)):
        cells = [_cell(value, low, high, (i, j) == heat_map.best) for j, value in enumerate(line)]
        table.add_row(name, *cells)
    return table


def _cell(value: float | None, low: float, high: float, best: bool) -> Text:
    if value is None:
        return Text("–")
    share = (value - low) / (high - low) if high > low else 1.0
    style = SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]
    return Text(f" {BEST if best else ' '}{value:.2f} ", f"{style} {'bold' if best else ''} white")
