"""What does an experiment leave behind? Rows with what they were measured on, as JSON, CSV and Markdown.

The JSON comes back exactly; a file is whole after every row, so that a run can go on where it was interrupted.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from specdemo.lab.experiment import Experiment, LabRefused, Row, Told
from specdemo.tables import markdown
from specdemo.trace_files import write_whole, wrong_place

VERSION = 2
# Of the facts of pair and machine, those that may differ between two loads of the same pair on the same machine.
CHANGING = {"precision choice", "equal shapes", "memory", "narrow", "draft cost"}
MACHINE = ("cpu", "device", "torch threads")


class Result(BaseModel):
    """options: as plain JSON. pair, environment: facts to print. cells: how many rows there are when all is done.

    rows: in the order of their measuring. findings: sentences, of the rows so far.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    format: str = "specdemo lab"
    version: int = VERSION
    experiment: str
    options: dict[str, Any]
    pair: dict[str, str]
    environment: dict[str, str]
    cells: int
    rows: list[Row] = []
    findings: list[str] = []

    @property
    def done(self) -> bool:
        """Whether every cell has its row."""
        return len(self.rows) == self.cells

    def differs(self, earlier: Result) -> tuple[str, list[str]] | None:
        """What an earlier result is another one of, and by which names; None where it is of the same run."""
        if earlier.experiment != self.experiment:
            return "experiment", [earlier.experiment]
        differing = {
            "options": _differing(self.options, earlier.options),
            "pair": _differing(_lasting(self.pair), _lasting(earlier.pair)),
            "machine": [key for key in MACHINE if self.environment.get(key) != earlier.environment.get(key)],
        }
        return next(((what, names) for what, names in differing.items() if names), None)

    def goes_on(self, earlier: Result, name: str) -> Result:
        """The earlier result of the same run, to be finished; LabRefused where it is of another one."""
        other = self.differs(earlier)
        if other is not None:
            what, names = other
            article = "other" if what == "options" else "another"
            raise LabRefused(
                f"{name} holds rows of {article} {what} ({', '.join(names)}): name another file, or remove that one "
                "to begin anew."
            )
        return earlier

    def save(self, path: Path) -> None:
        """Write the JSON, whole or not at all; raises OSError."""
        write_whole(path, self.model_dump_json(indent=1).encode() + b"\n")

    def csv(self) -> str:
        """Every row, under every column that any of them has."""
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def markdown(self, experiment: Experiment) -> str:
        """For a person: what it answers, the findings, the table, and what all of it was measured on."""
        whole = "" if self.done else f"Not finished: {len(self.rows)} of {self.cells} rows.\n\n"
        findings = "".join(f"- {finding}\n" for finding in self.findings)
        asked = "; ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in self.options.items())
        facts = "; ".join(f"{name} {value}" for name, value in (self.pair | self.environment).items())
        about = f"{asked}.\n\n{facts}.\n"
        table = table_text(experiment.table(self.rows))
        return f"# {experiment.name}\n\n{experiment.about}\n\n{whole}{findings}\n{table}\n\n{about}"


def read(path: Path) -> Result:
    """The result in a file; raises LabRefused with a sentence that names the key."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LabRefused(f"{path} could not be read: {error.strerror or error}. Name another file.") from None
    return parse(data, str(path))


def parse(data: bytes | str, name: str) -> Result:
    """The result in a file of that name; raises LabRefused with a sentence that names the key."""
    try:
        document = from_json(data)
    except ValueError as error:
        raise LabRefused(f"{name} is not JSON: {error}.") from None
    version = document.get("version", VERSION) if isinstance(document, dict) else VERSION
    if version != VERSION:
        raise LabRefused(f"{name} is of version {version!r:.40}; this program reads {VERSION}: name another file.")
    try:
        return Result.model_validate(document)
    except ValidationError as error:
        raise LabRefused(f"{name} is no result of an experiment. {wrong_place(error, 'result')}") from None


def table_text(lines: list[Told]) -> str:
    """A table in Markdown that can be read in a terminal, too."""
    if not lines:
        return "There are no rows yet."
    head = list(dict.fromkeys(key for line in lines for key in line))
    return markdown(head, [[line.get(key, "–").replace("|", "\\|") for key in head] for line in lines])


def _lasting(facts: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in facts.items() if key not in CHANGING}


def _differing(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return [key.replace("_", " ") for key in sorted(a.keys() | b.keys()) if a.get(key, a) != b.get(key, a)]


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "all"
    if isinstance(value, dict):  # a file's prompts
        return f"{value['name']} ({len(value['prompts'])})"
    return "not set" if value in (None, "") else str(value)
