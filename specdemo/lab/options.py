"""How are an experiment's options asked for? A frozen dataclass says it once, for the command line and for the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from specdemo.lab.experiment import LabRefused
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.option_names import dashed, named

Options = TypeVar("Options")
SAME = "same"


def option(default: Any, about: str, read: Callable[[str], Any] = str) -> Any:
    """A field of an experiment's options. read: its value from what was typed; raises LabRefused."""
    return field(default=default, metadata={"about": about, "read": read})


def add_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup, kind: type) -> None:
    """An option for each field."""
    for one in fields(kind):
        name, about = f"--{dashed(one.name.replace('_', ' '))}", one.metadata["about"]
        if isinstance(one.default, bool):
            parser.add_argument(name, action="store_true", help=about)
            continue
        usual = "" if one.default in (None, ()) else f" ({typed(one.default)})"
        parser.add_argument(name, metavar="VALUE", help=(about + usual).replace("%", "%%"))


def read_options(kind: type[Options], args: argparse.Namespace) -> Options:
    """What was asked for; raises LabRefused with the option's name."""
    asked = {}
    for one in fields(kind):
        value = getattr(args, one.name)
        if isinstance(value, str):
            try:
                value = one.metadata["read"](value)
            except LabRefused as error:
                raise LabRefused(f"--{one.name.replace('_', '-')}: {error}") from None
        if value is not None:
            asked[one.name] = value
    return kind(**asked)


def plain(options: object) -> dict[str, Any]:
    """Options as JSON has them, to be kept and compared."""
    return json.loads(json.dumps(asdict(options)))


def typed(value: object) -> str:
    """A value as it would be typed."""
    if isinstance(value, tuple):
        return ",".join(map(typed, value))
    if value is None:
        return SAME
    return dashed(value) if isinstance(value, StrEnum) else f"{value}"


# --- What a value may be ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A number from lowest to highest, whole where kind is int."""

    kind: type
    lowest: float
    highest: float

    def __call__(self, text: str) -> float:
        """Read it."""
        try:
            value = self.kind(text)
        except ValueError:
            value = float("nan")
        if not self.lowest <= value <= self.highest:
            what = "a whole number" if self.kind is int else "a number"
            raise LabRefused(f"take {what} from {self.lowest:g} to {self.highest:g}, not {text[:40]!r}.")
        return value


GAMMA = Number(int, 0, MAX_GAMMA)
TEMPERATURE = Number(float, 0, 5)
TOKENS = Number(int, 2, 8192)
COUNT = Number(int, 1, 10_000)
SEED = Number(int, -(2**63), 2**63 - 1)


def or_same(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A value, or None for the word that takes what is set elsewhere."""
    return lambda text: None if text == SAME else read(text)


def several(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Values between commas, each once."""

    def read_all(text: str) -> tuple[Any, ...]:
        values = tuple(dict.fromkeys(read(part.strip()) for part in text.split(",") if part.strip()))
        if not values:
            raise LabRefused("give at least one value.")
        return values

    return read_all


def one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    """A member of an enum, by the name that an option's value has."""

    def read(text: str) -> StrEnum:
        if text not in named(kind):
            raise LabRefused(f"take one of {', '.join(named(kind))}, not {text[:40]!r}.")
        return named(kind)[text]

    return read
