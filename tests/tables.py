"""Models that are tables: random logits for every prefix over a tiny vocabulary, so that whole laws can be enumerated.

Prefixes of length d over V tokens are rows 0 .. V^d - 1 of level d, read as numbers in base V. What the laws should be
is computed in float64 numpy by `reference`, written from the papers and independent of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Output
from specdemo.decoding.sampling import penalise, truncate

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Tables:
    """levels[d]: logits [V^d, V] after each prefix of length d. prompt: ids that stand before every prefix."""

    levels: tuple[Tensor, ...]
    prompt: tuple[int, ...] = (0,)

    @property
    def vocab_size(self) -> int:
        return self.levels[0].shape[1]

    def like(self, noise: float, seed: int = 99) -> Tables:
        """Tables of a draft that agrees with these sometimes."""
        g = torch.Generator().manual_seed(seed)
        return replace(self, levels=tuple(x + noise * torch.randn(x.shape, generator=g) for x in self.levels))


def tables(vocab: int, depth: int, seed: int = 0, spread: float = 1.5) -> Tables:
    """Random tables for prefixes of length 0 .. depth - 1."""
    g = torch.Generator().manual_seed(seed)
    return Tables(tuple(spread * torch.randn(vocab**d, vocab, generator=g) for d in range(depth)))


def digits(vocab: int, depth: int) -> np.ndarray:
    """Every prefix of a length [V^d, d], in row order."""
    rows = np.arange(vocab**depth)
    return rows[:, None] // vocab ** np.arange(depth - 1, -1, -1) % vocab


# --- What the engine makes of them ---------------------------------------------------------------------------------


def processed(model: Tables, params: SamplingParams, draft: bool = False) -> list[Tensor]:
    """Distributions [V^d, V] of each level by the engine's processing; a draft's with the draft temperature."""
    temperature = params.temperature
    if draft and params.draft_temperature is not None:
        temperature = params.draft_temperature
    found = []
    for depth, logits in enumerate(model.levels):
        logits = penalise(logits, torch.from_numpy(_seen(model, depth)), params.repetition_penalty)
        if temperature == 0:
            found.append(torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0))
        else:
            found.append(truncate((logits / temperature).softmax(-1), params))
    return found


class TableRunner:
    """Tables as a Runner (see decoding/runner.py)."""

    max_length = 1 << 20
    device = CPU

    def __init__(self, model: Tables) -> None:
        self.model = model
        self.vocab_size = model.vocab_size
        self.ids: list[int] = []

    @property
    def length(self) -> int:
        return len(self.ids)

    def begin(self, capacity: int, keep: int = 0) -> None:
        self.ids, self.capacity = [], capacity

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        self.ids += ids.tolist()
        assert len(self.ids) <= self.capacity, "more tokens than the decoder asked room for"
        return Output(torch.stack([self._after(len(self.ids) - rows + 1 + i) for i in range(rows)]) if rows else None)

    def rewind(self, length: int) -> None:
        assert 0 <= length <= len(self.ids)
        del self.ids[length:]

    def twin(self) -> TableRunner:
        return TableRunner(self.model)

    def _after(self, length: int) -> Tensor:
        row = 0
        start = len(self.model.prompt)
        for token in self.ids[start:length]:
            row = row * self.vocab_size + token
        return self.model.levels[length - start][row]


class ChainRunner(TableRunner):
    """A Markov chain of any length: what follows depends on the last token alone, by level 1 of the tables."""

    def _after(self, length: int) -> Tensor:
        return self.model.levels[1][self.ids[length - 1]]


# --- What the laws are, exactly --------------------------------------------------------------------------------------


def reference(model: Tables, params: SamplingParams, temperature: float | None = None) -> list[np.ndarray]:
    """Distributions [V^d, V] of each level in float64: penalty, temperature, top-k, top-p, min-p, a row at a time."""
    temperature = params.temperature if temperature is None else temperature
    found = []
    for depth, logits in enumerate(model.levels):
        rows = zip(logits.double().numpy(), _seen(model, depth), strict=True)
        found.append(np.stack([_reference_row(row, seen, params, temperature) for row, seen in rows]))
    return found


def _reference_row(logits: np.ndarray, seen: np.ndarray, params: SamplingParams, temperature: float) -> np.ndarray:
    penalty = np.where(logits > 0, 1 / params.repetition_penalty, params.repetition_penalty)
    logits = np.where(seen, logits * penalty, logits)
    if temperature == 0:
        return np.eye(len(logits))[logits.argmax()]
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    order = np.argsort(-p)
    if params.top_k:
        p[order[params.top_k :]] = 0
        p /= p.sum()
    mass = 0.0
    for token in order:
        if params.top_p < 1 and mass >= params.top_p:
            p[token] = 0
        mass += p[token]
    p /= p.sum()
    p[p < params.min_p * p.max()] = 0
    return p / p.sum()


def joint(levels: Sequence[np.ndarray]) -> np.ndarray:
    """Probability [V^n] of every sequence of n = len(levels) tokens."""
    law = np.ones(1)
    for level in levels:
        law = (law[:, None] * level).ravel()
    return law


def _seen(model: Tables, depth: int) -> np.ndarray:
    """Tokens [V^d, V] that stand in the prompt or in the prefix."""
    vocab = model.vocab_size
    seen = np.zeros((vocab**depth, vocab), bool)
    seen[:, list(model.prompt)] = True
    prefixes = digits(vocab, depth)
    for column in prefixes.T:
        seen[np.arange(len(seen)), column] = True
    return seen
