"""What did the target think at every token of a corpus? Its hidden states, kept on disk for training.

A cache: it can be deleted and made again from the corpus. Synthesis fills it while it decodes, which costs nothing
more; what is missing is computed before training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specdemo.distill.corpus import Row, digest, read_rows
from specdemo.models.head_files import usual_layers

BATCH_TOKENS = 4096


def layers_to_read(model: PreTrainedModel, named: str | None) -> tuple[int, ...]:
    """Ids as speculators counts them (k: what k layers have made), from "2,15,27"; by default EAGLE-3's three."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    ids = usual_layers(count) if named is None else tuple(int(part) for part in named.split(","))
    if len(set(ids)) < len(ids) or not all(1 <= i < count for i in ids):
        raise ValueError(f"A head can read layers 1 to {count - 1} of this target, each once, not {named or ids}.")
    return ids


class Listener:
    """Hears what a model's decoder layers and last norm make of every token. layer_ids as speculators count them."""

    def __init__(self, model: PreTrainedModel, layer_ids: Sequence[int]):
        self.layer_ids = tuple(layer_ids)
        decoder = model.get_decoder()
        self.width = model.config.get_text_config(decoder=True).hidden_size
        self._heard: dict[int, Tensor] = {}
        for place, module in enumerate((*(decoder.layers[i - 1] for i in self.layer_ids), decoder.norm)):
            module.register_forward_hook(self._hook(place))

    def _hook(self, place: int) -> Callable[..., None]:
        def hear(module: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            self._heard[place] = output[0] if isinstance(output, tuple) else output

        return hear

    def states(self) -> Tensor:
        """Of the last forward: [rows, T, (aux + 1) * width] in fp16, the layers' and then the last, normed."""
        return torch.cat([self._heard[place].half() for place in sorted(self._heard)], dim=-1)


@dataclass(frozen=True, slots=True)
class Example:
    """One row for training. hidden: [T - 1, (aux + 1) * width] fp16, the layers read, then the target's last, normed.

    answer: index of the first answer token in ids [T]. The last token's own states say nothing about the row.
    """

    ids: np.ndarray
    answer: int
    kind: str
    temperature: float
    held_out: bool
    hidden: np.ndarray


class HiddenStore:
    """The hidden states of rows as `listener` hears them, in `folder`.

    Several processes may append at once, each as a `writer` of its own. A writer has two files: states [tokens,
    columns] side by side, and a JSON line a row that says whose they are. A row counts once its line is whole; what a
    killed run left behind it is cut off.
    """

    def __init__(self, folder: Path, listener: Listener, writer: str):
        self.listener = listener
        self._columns = (len(listener.layer_ids) + 1) * listener.width
        self._states, self._lines = folder / f"{writer}.f16", folder / f"{writer}.jsonl"
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._check_settings({"layers": list(listener.layer_ids), "width": listener.width})
        self._mend()

    def _check_settings(self, settings: dict[str, object]) -> None:
        """States of other layers are of no use: start afresh."""
        file = self._folder / "settings.json"
        if not file.exists() or json.loads(file.read_text()) != settings:
            for old in (*self._folder.glob("*.f16"), *self._folder.glob("*.jsonl")):
                old.unlink()
            file.write_text(json.dumps(settings))

    def _mend(self) -> None:
        self._states.touch()
        self._lines.touch()
        text = self._lines.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        tokens = sum(json.loads(line)[1] for line in whole.splitlines())
        for file, size in ((self._lines, len(whole)), (self._states, tokens * self._columns * 2)):
            with file.open("r+b") as handle:
                handle.truncate(size)

    def append(self, row: Row, states: Tensor) -> None:
        """Keep a row's states [T - 1, columns]. They go first: a line never promises more than is there."""
        with self._states.open("ab") as file:
            file.write(states.half().cpu().numpy().tobytes())
        with self._lines.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([_key(row), len(states)]) + "\n")

    def read(self) -> dict[str, np.ndarray]:
        """Every row's states, which stay on disk until they are read."""
        held: dict[str, np.ndarray] = {}
        for lines in sorted(self._folder.glob("*.jsonl")):
            if not lines.stat().st_size:
                continue
            states = np.memmap(lines.with_suffix(".f16"), np.float16, "r").reshape(-1, self._columns)
            start = 0
            for line in lines.read_text("utf-8").splitlines():
                key, tokens = json.loads(line)
                held[key] = states[start : start + tokens]
                start += tokens
        return held


def _key(row: Row) -> str:
    return digest([*row.prompt, *row.answer]).hex()


def fill(store: HiddenStore, corpus: Path, model: PreTrainedModel) -> Iterator[tuple[int, int]]:
    """Compute the states of a corpus's rows that the store lacks; yields (tokens done, tokens in all) as it goes."""
    held = store.read()
    missing = sorted((row for row in read_rows(corpus) if _key(row) not in held), key=_length)
    total, done = sum(map(_length, missing)), 0
    while missing:
        rows = [missing.pop()]  # the longest first: what does not fit into memory fails at once
        while missing and _length(rows[0]) * (len(rows) + 1) <= BATCH_TOKENS:
            rows.append(missing.pop())
        for row, states in zip(rows, _run(rows, model, store.listener), strict=True):
            store.append(row, states)
        done += sum(map(_length, rows))
        yield done, total


def _length(row: Row) -> int:
    return len(row.prompt) + len(row.answer) - 1


@torch.inference_mode()
def _run(rows: Sequence[Row], model: PreTrainedModel, listener: Listener) -> list[Tensor]:
    ids = torch.zeros(len(rows), max(map(_length, rows)), dtype=torch.long)
    for i, row in enumerate(rows):  # padding stands behind, where causal attention does not look
        ids[i, : _length(row)] = torch.from_numpy(np.concatenate([row.prompt, row.answer])[:-1].astype(np.int64))
    model.get_decoder()(input_ids=ids.to(model.device), use_cache=False)
    return [states[: _length(row)] for row, states in zip(rows, listener.states(), strict=True)]


def examples(store: HiddenStore, corpus: Path, longest: int) -> list[Example]:
    """The rows of a corpus whose states are held, cut to `longest` tokens; those with hardly an answer are left out."""
    held, found = store.read(), []
    for row in read_rows(corpus):
        hidden = held.get(_key(row))
        if hidden is None or len(row.prompt) + 8 > longest or len(row.answer) < 3:
            continue
        ids = np.concatenate([row.prompt, row.answer])[:longest]
        found.append(Example(ids, len(row.prompt), row.kind, row.temperature, row.held_out, hidden[: len(ids) - 1]))
    return found


@dataclass(slots=True)
class Batch:
    """Examples side by side, padded behind. hidden [B, T, aux * width], last [B, T, width], ids [B, T + pad].

    rows [B, A]: the rows that predict an answer's tokens (row t predicts the token at t + 2), padded with row 0.
    count [B]: how many of them are real.
    """

    hidden: Tensor
    last: Tensor
    ids: Tensor
    rows: Tensor
    count: Tensor


def collate(examples: Sequence[Example], width: int, pad: int, device: torch.device) -> Batch:
    """A batch of examples; `pad` more columns of ids, so that every unrolled step has tokens to stand on."""
    longest = max(len(e.hidden) for e in examples)
    first = [max(0, e.answer - 2) for e in examples]
    count = torch.tensor([len(e.ids) - 2 - f for e, f in zip(examples, first, strict=True)])
    states = torch.zeros(len(examples), longest, examples[0].hidden.shape[1])
    ids = torch.zeros(len(examples), longest + pad, dtype=torch.long)
    rows = torch.zeros(len(examples), int(count.max()), dtype=torch.long)
    for i, example in enumerate(examples):
        n = len(example.ids)
        states[i, : n - 1] = torch.from_numpy(np.array(example.hidden)).float()
        ids[i, :n] = torch.from_numpy(example.ids.astype(np.int64))
        rows[i, : count[i]] = torch.arange(first[i], n - 2)
    states = states.to(device)
    return Batch(states[..., :-width], states[..., -width:], ids.to(device), rows.to(device), count.to(device))
