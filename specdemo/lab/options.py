"""How are an experiment's options asked for? A frozen dataclass says it once, for the command line and for the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from specdemo.lab.experiment import LabRefused
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.option_names import dashed, named

Options = TypeVar("Options")
SAME = "same"


class OptionRefused(LabRefused):
    """An option's value cannot be had. name: the field's. why: what to take in its place."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"--{name.replace('_', '-')}: {why}")
        self.name, self.why = name, why


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
        # type: a number in a file of options becomes a text, too (see config), and options_of reads it
        parser.add_argument(name, metavar="VALUE", type=str, help=(about + usual).replace("%", "%%"))


def read_options(kind: type[Options], args: argparse.Namespace) -> Options:
    """What was asked for; raises OptionRefused."""
    return options_of(kind, {one.name: getattr(args, one.name) for one in fields(kind)})


def options_of(kind: type[Options], asked: Mapping[str, Any]) -> Options:
    """Options by field, read where they were typed; None and what is missing are as usual. Raises OptionRefused."""
    values = {}
    for one in fields(kind):
        value = asked.get(one.name)
        if isinstance(value, str):
            try:
                value = one.metadata["read"](value)
            except LabRefused as error:
                raise OptionRefused(one.name, str(error)) from None
        if value is not None:
            values[one.name] = value
    return kind(**values)


def plain(options: object) -> dict[str, Any]:
    """Options as JSON has them, to be kept and compared."""
    return json.loads(json.dumps(asdict(options)))


def typed(value: object) -> str:
    """A value as it would be typed; of one that was kept as JSON, too."""
    if isinstance(value, tuple | list):
        return ",".join(map(typed, value))
    if value is None:
        return SAME
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
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


@dataclass(frozen=True, slots=True)
class OrSame:
    """A value, or None for the word that takes what is set elsewhere."""

    read: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        """Read it."""
        return None if text == SAME else self.read(text)


@dataclass(frozen=True, slots=True)
class Several:
    """Values between commas, each once."""

    read: Callable[[str], Any]

    def __call__(self, text: str) -> tuple[Any, ...]:
        """Read them."""
        values = tuple(dict.fromkeys(self.read(part.strip()) for part in text.split(",") if part.strip()))
        if not values:
            raise LabRefused("give at least one value.")
        return values


@dataclass(frozen=True, slots=True)
class OneOf:
    """A member of an enum, by the name that an option's value has."""

    kind: type[StrEnum]

    def __call__(self, text: str) -> StrEnum:
        """Read it."""
        if dashed(text) not in named(self.kind):
            raise LabRefused(f"take one of {', '.join(named(self.kind))}, not {text[:40]!r}.")
        return named(self.kind)[dashed(text)]


@dataclass(frozen=True, slots=True)
class Named:
    """What is loaded later, by its name. what: a model, a drafter."""

    what: str

    def __call__(self, text: str) -> str:
        """As it was typed."""
        return text


MODEL, DRAFTER = Named("model"), Named("drafter")
