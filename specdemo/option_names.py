"""How is something asked for on the command line? By its own name, with dashes: a member of an enum, an option."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

Kind = TypeVar("Kind", bound=StrEnum)


def dashed(name: str) -> str:
    """As an option's value has it."""
    return name.replace(" ", "-")


def option(name: str) -> str:
    """What sets an attribute of the parsed options."""
    return f"--{name.replace('_', '-')}"


def named(kind: type[Kind]) -> dict[str, Kind]:
    """Every member by what an option's value calls it."""
    return {dashed(member): member for member in kind}
