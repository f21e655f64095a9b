"""How does a pattern become a prompt? Its slots are filled at random, from word lists, ranges and alternatives.

`<city>` takes a word of the list `city`, which may hold slots itself; `<city1>` is the same one wherever it stands
again; `<2..99>` is a number; `<short|long>` one of the alternatives. Lists and patterns are the files of prompts/.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("prompts")
SLOT = re.compile(
    r"<(?:(?P<name>[a-z][a-z_]*)(?P<same>\d?)"
    r"|(?P<low>-?\d+)\.\.(?P<high>-?\d+)"
    r"|(?P<choices>[^<>|\n]*(?:\|[^<>|\n]*)+))>"
)
ROUNDS = 12  # how deep slots may hold slots
# Stands for "<" in text that was pasted in, so that nothing inside it is taken for a slot.
SHIELD = "\ue000"

Source = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of prompts. A pattern of several texts is a chat: user, assistant, user.

    weight: its share of the rows, against the other kinds'. endings: wishes that one prompt in three gets on top.
    """

    name: str
    weight: int
    patterns: tuple[str | list[str], ...]
    endings: tuple[str, ...] = ()


@cache
def load_kinds() -> dict[str, Kind]:
    """The kinds by name: every file of prompts/ that has patterns."""
    kinds = {}
    for path in sorted(FOLDER.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if "patterns" in data:
            texts = tuple(data["patterns"]), tuple(data.get("endings", ()))
            kinds[path.stem] = Kind(path.stem, data["weight"], *texts)
    return kinds


@cache
def load_words() -> dict[str, list[str]]:
    """The word lists by name: those of words*.toml, and each kind's own. A string lists its words between bars."""
    words = {}
    for path in sorted(FOLDER.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for name, value in (data.get("words", {}) if "patterns" in data else data).items():
            if name in words:
                raise ValueError(f"{path.name} lists {name} again")
            words[name] = [word.strip() for word in value.split("|")] if isinstance(value, str) else value
    return words


class Filler:
    """Fills slots. sources: functions behind slot names that no word list has (a passage, a piece of code)."""

    def __init__(self, words: Mapping[str, list[str]], sources: Mapping[str, Source]) -> None:
        self._words, self._sources = words, sources

    def fill(self, pattern: str, rng: random.Random, same: dict[str, str] | None = None) -> str:
        """The pattern with all its slots filled. same: what numbered slots were given, to share between texts."""
        same = {} if same is None else same

        def give(slot: re.Match[str]) -> str:
            if slot["low"]:
                return str(rng.randint(int(slot["low"]), int(slot["high"])))
            if slot["choices"] is not None:
                return rng.choice(slot["choices"].split("|"))
            if not slot["same"]:
                return self._one(slot["name"], rng)
            return same.setdefault(slot["name"] + slot["same"], self.fill(f"<{slot['name']}>", rng))

        text = pattern
        for _ in range(ROUNDS):
            text, filled = SLOT.subn(give, text)
            if not filled:
                return text.replace(SHIELD, "<")
        raise ValueError(f"slots hold slots more than {ROUNDS} deep in: {pattern}")

    def _one(self, name: str, rng: random.Random) -> str:
        if name in self._sources:
            return self._sources[name](rng).replace("<", SHIELD)
        if name not in self._words:
            raise KeyError(f"no word list or source is called {name}")
        return rng.choice(self._words[name])
