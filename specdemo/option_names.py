"""How is a member of an enum asked for on the command line? By its own name, with dashes for its spaces."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

Kind = TypeVar("Kind", bound=StrEnum)


def dashed(name: str) -> str:
    """As an option's value has it."""
    return name.replace(" ", "-")


def named(kind: type[Kind]) -> dict[str, Kind]:
    """Every member by what an option's value calls it."""
    return {dashed(member): member for member in kind}
