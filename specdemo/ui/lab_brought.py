"""May a file that a visitor brings be shown as a result, and gone on with? Only where its rows are its options' own."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from specdemo.lab.experiment import Experiment, LabRefused, Plain, missing
from specdemo.lab.options import plain, typed
from specdemo.lab.prompt_files import PromptSet, read_set
from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.result import Result, parse
from specdemo.lab.served import SERVED
from specdemo.recording import Known
from specdemo.ui.lab_drawn import drawn
from specdemo.ui.lab_form import MOST_ROWS, Asked, Form
from specdemo.ui.lab_prompts import refuse_large

LARGEST = 4 * 1024 * 1024  # bytes
MOST_COLUMNS = 300
LONGEST = 20_000  # characters of a value
GREATEST = 1e15
MOST_WORDS = 20_000_000  # different ones times rows: what a test of two texts counts


@dataclass(frozen=True, slots=True)
class Brought:
    """A result that can be shown, what asked for it, and how it is drawn."""

    asked: Asked
    result: Result
    drawn: dict[str, Any]


def brought(text: str, form: Form) -> Brought:
    """The result in a file; raises LabRefused with a sentence, or FormRefused where the options cannot be had here."""
    if len(text) > LARGEST:
        raise LabRefused(f"The file is larger than {LARGEST >> 20} MiB, which no result of this page is.")
    result = parse(text, "The file")
    experiment = (SERVED if Known(pair=result.pair).remote else EXPERIMENTS).get(result.experiment)
    if experiment is None:
        raise LabRefused(f"The file is of an experiment that is not known here: {result.experiment[:40]!a}.")
    if len(result.rows) > MOST_ROWS or len(result.pair) + len(result.environment) > MOST_COLUMNS:
        raise LabRefused(f"The file holds more than the {MOST_ROWS:,} rows that a result here may have.")
    asked = form.ask(experiment, _values(experiment, result.options))
    if plain(asked.options) != result.options:
        raise LabRefused(f"The file holds options that {experiment.name} does not have.")
    _refuse_values(result)
    if len(asked.cells) != result.cells or len(missing(asked.cells, result.rows)) + len(result.rows) != result.cells:
        raise LabRefused("The file holds rows that its options do not ask for, or one of them twice.")
    try:
        result.findings = experiment.findings(result.rows)
        return Brought(asked, result, drawn(experiment, result))
    except Exception as error:  # rows of a stranger's making may lack anything that an experiment counts on
        raise LabRefused(f"The file's rows are not those of {experiment.name}: {error!r:.80}.") from error


def _values(experiment: Experiment, options: dict[str, Any]) -> dict[str, str | PromptSet]:
    """The options as they would be typed; prompts as the result holds them, and never from a path."""
    sets = {one.name for one in fields(experiment.options) if one.metadata["read"] is read_set}
    values: dict[str, str | PromptSet] = {}
    for name, value in options.items():
        if value not in (None, "", []):
            values[name] = PromptSet.of(value) if name in sets else typed(value)
        if isinstance(values.get(name), PromptSet):
            refuse_large(values[name])
    return values


def _refuse_values(result: Result) -> None:
    """Raises LabRefused for what no experiment measures, and for what takes too long to look through."""
    words: set[str] = set()
    for number, row in enumerate(result.rows, 1):
        if len(row) > MOST_COLUMNS or not all(_sane(value) for value in (*row, *row.values())):
            raise LabRefused(f"Row {number} of the file holds a value that no experiment measures.")
        words.update(word for value in row.values() if isinstance(value, str) for word in value.split())
    if len(words) * len(result.rows) > MOST_WORDS:
        raise LabRefused("The file's texts hold more different words than can be compared here.")


def _sane(value: Plain) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST
    return value is None or (math.isfinite(value) and abs(value) <= GREATEST)
