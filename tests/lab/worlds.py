"""Pairs whose figures are known: a target that always says the same, a drafter with chosen hits, injected costs.

Nothing is timed: the engine's clock reads the world's own time, which forwards and drafts move on by what they cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from specdemo.decoding.draft_length import Levels
from specdemo.decoding.drafter import Draft, Draw
from specdemo.decoding.runner import Output
from tests.tables import ChainRunner, Tables

VOCABULARY = 7
Hits = Callable[[int, int], bool]
"""hits(i, at): whether the i-th token of a draft is right, `at` tokens of the answer standing before the draft."""


def first(n: int) -> Hits:
    """The first n of every draft are right, and no others."""
    return lambda i, at: i < n


def follows(token: int) -> int:
    """What the target says after a token, at any temperature."""
    return (3 * token + 1) % VOCABULARY


CERTAIN = torch.zeros(VOCABULARY, VOCABULARY)
CERTAIN[torch.arange(VOCABULARY), [follows(i) for i in range(VOCABULARY)]] = 1000.0


class Tokenizer:
    """A token for each character."""

    chat_template = None

    def encode(self, text: str, **_: object) -> list[int]:
        return [ord(character) % VOCABULARY for character in text]

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return " ".join("abcdefg"[token] for token in ids)


@dataclass
class World:
    """Costs, in plain steps. v(k): of a verification of k drafts, 1 for none. c: of a drafted token."""

    hits: Hits = first(2)
    v: Callable[[int], float] = lambda k: 1.0
    c: float = 0.1
    padding: float = 1.0
    facts: dict[str, str] = field(default_factory=lambda: {"target": "certain", "drafter": "chosen"})
    context: int = 4096
    eos_ids: frozenset[int] = frozenset()
    bits_promised: bool = True
    now: float = 0.0
    steps: int = 0  # forwards of the target
    levels: Levels = field(default_factory=Levels)
    calibration: None = None

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer()
        self.target, self.target_twin = (Costly(self) for _ in range(2))
        self.drafter = Chosen(self)

    def switch_drafter(self, name: str, *_: Any) -> World:
        """The same world with other hits."""
        other = copy(self)
        other.drafter = Chosen(self, self.drafters[name])
        return other

    drafters: dict[str, Hits] = field(default_factory=dict)  # by name, for switch_drafter
    prompt_length: int = 0  # of the prompt that is answered


class Costly(ChainRunner):
    """The certain target, whose forwards cost what the world says."""

    def __init__(self, world: World) -> None:
        super().__init__(Tables((CERTAIN[:1], CERTAIN)))
        self.world = world

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        self.world.now += self.world.v(rows - 1)
        self.world.steps += 1
        return super().forward(ids, rows, aux_layers)


class Chosen:
    """Drafts γ tokens, right where the world says."""

    aux_layers: tuple[int, ...] = ()
    max_length = 1 << 20

    def __init__(self, world: World, hits: Hits | None = None) -> None:
        self.world = world
        self.hits = hits or world.hits
        self.last = self.at = 0

    def twin(self) -> Chosen:
        return Chosen(self.world, self.hits)

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        self.last, self.at, self.world.prompt_length = first, 1, len(prompt_ids)

    def held(self, ids: Tensor) -> int:
        return 0

    def forget(self) -> None:
        pass

    def propose(self, gamma: int, draw: Draw) -> Draft:
        self.world.now += self.world.c * gamma
        ids, last = [], self.last
        for i in range(gamma):
            right = follows(last)
            last = right if self.hits(i, self.at) else (right + 1) % VOCABULARY
            ids.append(last)
        return Draft(torch.tensor(ids))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self.last, self.at = tokens[-1], self.at + len(tokens)


def at_its_own_time(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The engine's clock shows the world's time."""
    monkeypatch.setattr("specdemo.decoding.clock.perf_counter", lambda: world.now)
    return world
