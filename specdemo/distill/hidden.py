"""What did the target think at every token of a corpus? Its hidden states, computed once and kept in one flat file.

A cache: it can be deleted and made again from the corpus. It grows with the corpus, row by row, and resumes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from specdemo.distill.corpus import Row, read_rows
from specdemo.models.head_files import usual_layers

BATCH_TOKENS = 4096


def layers_to_read(model: PreTrainedModel, named: str | None) -> tuple[int, ...]:
    """Ids as speculators counts them (k: what k layers have made), from "2,15,27"; by default EAGLE-3's three."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    ids = usual_layers(count) if named is None else tuple(int(part) for part in named.split(","))
    if len(set(ids)) < len(ids) or not all(1 <= i < count for i in ids):
        raise ValueError(f"A head can read layers 1 to {count - 1} of this target, each once, not {named or ids}.")
    return ids


@dataclass(frozen=True, slots=True)
class Example:
    """One row for training. hidden: [T, (aux + 1) * width] fp16, the layers read and then the target's last, normed.

    answer: index of the first answer token in ids [T].
    """

    ids: np.ndarray
    answer: int
    kind: str
    temperature: float
    held_out: bool
    hidden: np.ndarray


class HiddenCache:
    """Hidden states of a corpus's rows, cut to `longest` tokens, in `folder`. layer_ids as speculators count them."""

    def __init__(self, folder: Path, corpus: Path, model: PreTrainedModel, layer_ids: Sequence[int], longest: int):
        self._folder, self._corpus, self._model = folder, corpus, model
        self._layer_ids, self._longest = tuple(layer_ids), longest
        config = model.config.get_text_config(decoder=True)
        self.width = config.hidden_size
        self._columns = (len(self._layer_ids) + 1) * self.width
        folder.mkdir(parents=True, exist_ok=True)
        self._check_settings()

    def _check_settings(self) -> None:
        """A cache made with other layers or another cut is of no use: start afresh."""
        settings = {"layers": list(self._layer_ids), "longest": self._longest, "width": self.width}
        file = self._folder / "settings.json"
        if not file.exists() or json.loads(file.read_text()) != settings:
            (self._folder / "hidden.f16").unlink(missing_ok=True)
            file.write_text(json.dumps(settings))

    def _rows(self) -> list[Row]:
        return [row for row in read_rows(self._corpus) if len(row.prompt) + 8 <= self._longest and len(row.answer) > 2]

    def _cut(self, row: Row) -> np.ndarray:
        return np.concatenate([row.prompt, row.answer])[: self._longest]

    def fill(self) -> Iterator[tuple[int, int]]:
        """Compute what is missing; yields (tokens done, tokens in all) as it goes."""
        file = self._folder / "hidden.f16"
        rows = self._rows()
        lengths = [len(self._cut(row)) for row in rows]
        total, size = sum(lengths), self._columns * 2
        done = (file.stat().st_size // size) if file.exists() else 0
        first, held = 0, 0
        while first < len(rows) and held + lengths[first] <= done:  # whole rows only: the rest is computed again
            held += lengths[first]
            first += 1
        with file.open("ab") as out:
            out.truncate(held * size)
            while first < len(rows):
                batch = self._batch(lengths, first)
                for states in self._states([self._cut(row) for row in rows[first : first + batch]]):
                    out.write(states.tobytes())
                out.flush()
                held += sum(lengths[first : first + batch])
                first += batch
                yield held, total

    def _batch(self, lengths: Sequence[int], first: int) -> int:
        """Rows from `first` on that fit a forward together, padding counted."""
        n, longest = 0, 0
        while first + n < len(lengths):
            longest = max(longest, lengths[first + n])
            if n and longest * (n + 1) > BATCH_TOKENS:
                break
            n += 1
        return n

    @torch.inference_mode()
    def _states(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        longest = max(map(len, rows))
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for i, row in enumerate(rows):  # padding stands behind, where causal attention does not look
            ids[i, : len(row)] = torch.from_numpy(row.astype(np.int64))
        base = self._model.base_model
        out = base(input_ids=ids.to(self._model.device), output_hidden_states=True, use_cache=False)
        states = torch.cat([*(out.hidden_states[i] for i in self._layer_ids), out.last_hidden_state], dim=-1)
        return [states[i, : len(row)].half().cpu().numpy() for i, row in enumerate(rows)]

    def examples(self) -> list[Example]:
        """Every row with its hidden states, which stay on disk until they are read."""
        file = self._folder / "hidden.f16"
        states = np.memmap(file, np.float16, "r").reshape(-1, self._columns)
        examples, start = [], 0
        for row in self._rows():
            ids = self._cut(row)
            if start + len(ids) > len(states):
                break
            hidden = states[start : start + len(ids)]
            examples.append(Example(ids, len(row.prompt), row.kind, row.temperature, row.held_out, hidden))
            start += len(ids)
        return examples


@dataclass(slots=True)
class Batch:
    """Examples side by side, padded behind. hidden [B, T, aux * width], last [B, T, width], ids [B, T + pad].

    weight [B, T + pad]: 1 where the token is part of an answer.
    """

    hidden: Tensor
    last: Tensor
    ids: Tensor
    weight: Tensor


def collate(examples: Sequence[Example], width: int, pad: int, device: torch.device) -> Batch:
    """A batch of examples; `pad` more columns of ids, so that every unrolled step has tokens to stand on."""
    longest = max(len(e.ids) for e in examples)
    columns = examples[0].hidden.shape[1]
    states = torch.zeros(len(examples), longest, columns)
    ids = torch.zeros(len(examples), longest + pad, dtype=torch.long)
    weight = torch.zeros(len(examples), longest + pad)
    for i, example in enumerate(examples):
        n = len(example.ids)
        states[i, :n] = torch.from_numpy(np.array(example.hidden)).float()
        ids[i, :n] = torch.from_numpy(example.ids.astype(np.int64))
        weight[i, example.answer : n] = 1
    states = states.to(device)
    return Batch(states[..., :-width], states[..., -width:], ids.to(device), weight.to(device))
