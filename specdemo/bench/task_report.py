"""How are the tasks shown? A table for each measure, a line for each drafter, a column for each kind; and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median

from specdemo.bench.report import FORMAT, VERSION
from specdemo.bench.tasks import KINDS, Cell, Contestant, TaskSettings
from specdemo.lab.pooled import COST, FIRST, LENGTH, SPEEDUP, VERIFICATION, E
from specdemo.models.pair_options import split_drafter
from specdemo.tables import markdown

ENOUGH = 3  # repeats; a median of fewer is a look, not a measurement
TITLES = {
    SPEEDUP: "Speedup over our own baseline (×)",
    FIRST: "First draft of a round accepted (%)",
    LENGTH: "Mean acceptance length",
    E: "E: tokens a pass of the target",
    COST: "c: a drafted token, in plain steps",
    VERIFICATION: "v: a verification, in plain steps",
}
MEAN, WORST = "mean", "worst"
GOALS = {  # sampling -> measure -> at least so much over all kinds
    "greedy": {SPEEDUP: {MEAN: 2.0, WORST: 1.4}, LENGTH: {MEAN: 2.7}, FIRST: {MEAN: 0.50}},
    "rejection": {SPEEDUP: {MEAN: 1.5, WORST: 1.2}, LENGTH: {MEAN: 2.0}, FIRST: {MEAN: 0.45}},
}


@dataclass(frozen=True, slots=True)
class Line:
    """A measure of one contestant under one sampling. by_kind, mean, worst: medians over the repeats.

    goals: what mean and worst should be at least; none where no goal is set or where this is a part of the kinds.
    """

    measure: str
    sampling: str
    contestant: Contestant
    by_kind: dict[str, float]
    mean: float
    worst: float
    goals: dict[str, float]

    @property
    def reached(self) -> bool | None:
        """None where there is no goal."""
        return all(getattr(self, name) >= goal for name, goal in self.goals.items()) if self.goals else None


def lines(cells: Sequence[Cell]) -> list[Line]:
    """Every measure, in the order of its table."""
    found = []
    for measure in TITLES:
        groups: dict[tuple[str, Contestant], list[Cell]] = {}
        for cell in cells:
            groups.setdefault((cell.sampling, cell.contestant), []).append(cell)
        found += [_line(measure, *of, group) for of, group in groups.items()]
    return found


def _line(measure: str, sampling: str, contestant: Contestant, cells: Sequence[Cell]) -> Line:
    """Mean and worst kind are taken repeat by repeat, then their medians; kinds without a figure are left out."""
    values = {c.kind: c.speedups if measure == SPEEDUP else (c.figures[measure],) for c in cells}
    told = [each for each in values.values() if each[0] == each[0]]  # not nan
    repeats = list(zip(*told, strict=True)) or [(float("nan"),)]
    goals = GOALS.get(sampling, {}).get(measure, {})
    # the first draft's is the head's alone; all are set for all kinds
    if not values.keys() >= set(KINDS) or (measure == FIRST and split_drafter(contestant.drafter)[0]):
        goals = {}
    by_kind = {kind: median(each) for kind, each in values.items()}
    averages, worsts = (median(map(of, repeats)) for of in (mean, min))
    return Line(measure, sampling, contestant, by_kind, averages, worsts, goals)


def table(
    cells: Sequence[Cell], settings: TaskSettings, facts: dict[str, dict[str, str]], environment: dict[str, str]
) -> str:
    """Everything a person should see, as markdown. facts: of each pair, by its drafter."""
    found = lines(cells)
    tables = [part for measure in TITLES for part in (f"**{TITLES[measure]}**", "", _table(measure, found, cells), "")]
    remarks = [f"- {_place(cell)}: {note}" for cell in cells for note in cell.notes]
    remarks += [f"- VOID, {_place(cell)}: {fault}" for cell in cells for fault in cell.faults]
    busy = sorted({name for cell in cells for name in cell.busy})
    remarks += [f"- noisy: {name} was busy meanwhile" for name in busy]
    return "\n".join([*tables, *remarks, *([""] if remarks else []), *_about(settings, facts, environment)])


def to_json(
    cells: Sequence[Cell], settings: TaskSettings, facts: dict[str, dict[str, str]], environment: dict[str, str]
) -> dict[str, object]:
    """The same, to be kept: every repeat's speedup."""
    return {
        "format": f"{FORMAT} tasks",
        "version": VERSION,
        "environment": environment,
        "pairs": facts,
        "settings": {**asdict(settings), "prompts": settings.prompts.name},
        "noisy": any(cell.busy for cell in cells),
        "goals": GOALS,
        "cells": [_plain(asdict(cell)) for cell in cells],
        "lines": [_plain(asdict(line) | {"reached": line.reached}) for line in lines(cells)],
    }


def _table(measure: str, found: Sequence[Line], cells: Sequence[Cell]) -> str:
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    mine = [line for line in found if line.measure == measure]
    void = {(cell.sampling, cell.contestant) for cell in cells if cell.faults}
    head = ("sampling", "drafter", *kinds, "mean", *(["worst"] if measure == SPEEDUP else []), "goal", "")
    return markdown(head, [_row(line, (line.sampling, line.contestant) in void) for line in mine])


def _row(line: Line, void: bool) -> tuple[str, ...]:
    figures = [*line.by_kind.values(), line.mean, *([line.worst] if line.measure == SPEEDUP else [])]
    goal = ", ".join(f"{name} {_shown(line.measure, least)}" for name, least in line.goals.items())
    verdict = "void" if void else {None: "", True: "reached", False: "MISSED"}[line.reached]
    shown = (_shown(line.measure, figure) for figure in figures)
    return line.sampling, line.contestant.name, *shown, goal, verdict


def _shown(measure: str, value: float) -> str:
    if value != value:  # nan: it never happened
        return "–"
    return f"{100 * value:.0f}" if measure == FIRST else f"{value:.2f}"


def _about(settings: TaskSettings, facts: dict[str, dict[str, str]], environment: dict[str, str]) -> list[str]:
    s = settings
    prompts = "1 prompt" if s.per_kind == 1 else f"{s.per_kind or 'all'} prompts"
    look = "" if s.repeats >= ENOUGH else f" Fewer than {ENOUGH} repeats: a look and not a measurement."
    pair = next(iter(facts.values()))
    drafters = (f"{name}: {of['drafter']}, {of.get('draft precision', 'no weights')}" for name, of in facts.items())
    target = {name: value for name, value in pair.items() if not name.startswith("draft")}
    return [
        f"{prompts[0].upper()}{prompts[1:]} a kind, {s.new_tokens} new tokens or to the end of the answer; temperature "
        f"0 or 1, no truncation. Medians of {s.repeats} repeats; in each, the baseline ran on every prompt before all "
        f"drafters and after them, and both runs count as its speed.{look}",
        "Drafters: " + "; ".join(drafters) + ".",
        "; ".join(f"{name} {value}" for name, value in (target | environment).items()) + ".",
    ]


def _place(cell: Cell) -> str:
    return f"{cell.sampling}, {cell.contestant.name}, {cell.kind}"


def _plain(value: object) -> object:
    """As JSON has it: no nan."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and value != value else value
