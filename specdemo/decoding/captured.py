"""The lean forward of few rows, recorded once and replayed: the same operations, with what changes in tensors.

Where rows stand is a tensor; keys are written to their places by index, and attention reads a fixed span of the cache
behind a mask. A plain step and every verification are recorded; a prompt runs as it does without.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding.capture import Capture, Recordings, Tell, Work, roomy, silent
from specdemo.decoding.forward import (
    Attend,
    Layer,
    LeanRunner,
    attend_merged,
    attend_rows,
    logits_of,
    mask_of,
    queries_keys_values,
    rotary_tables,
    through_layers,
)
from specdemo.decoding.kv import LayerKV
from specdemo.decoding.runner import Output


class CapturedRunner:
    """A LeanRunner (see decoding/runner.py) whose forwards of the given numbers of rows are replays.

    An output holds until the next forward: replays write theirs into the same buffers. aux_layers: the only ones that
    replays give. When a text needs more room than there is, the cache moves and everything is recorded again.
    """

    def __init__(
        self,
        runner: LeanRunner,
        capture: Capture,
        rows: Sequence[int],
        aux_layers: tuple[int, ...] = (),
        tell: Tell = silent,
    ) -> None:
        self.runner, self.aux_layers = runner, aux_layers
        self.vocab_size, self.max_length, self.device = runner.vocab_size, runner.max_length, runner.device
        self.notice, self.shapes = runner.notice, runner.shapes
        self._rows = tuple(sorted(set(rows), reverse=True))
        self._recordings = Recordings(capture, tell)
        self._room = 0  # tokens for which there is a recording
        self.stopped = ""  # why nothing is recorded any more
        self._ids = torch.zeros(self._rows[0], dtype=torch.long, device=self.device)
        self._start = torch.zeros(1, dtype=torch.long, device=self.device)  # where the first row stands
        self._logits = self._hidden = torch.empty(0)
        self._cos = self._sin = torch.empty(0)

    @property
    def length(self) -> int:
        """Tokens held now."""
        return self.runner.length

    def twin(self) -> LeanRunner:
        """Another runner over the same weights, with a cache of its own; it records nothing."""
        return self.runner.twin()

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that the cache holds."""
        return self.runner.held(ids)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.runner.rewind(length)

    @torch.inference_mode()
    def begin(self, capacity: int, keep: int = 0) -> None:
        """Empty the cache, but for the first `keep` tokens, and make room for `capacity` in all."""
        if capacity > self._room:
            self._record(roomy(capacity, self.max_length), keep)
        self.runner.begin(capacity, keep)

    def prepare(self, capacity: int) -> None:
        """Make the room that `begin` would make, and record for it; what is held stays."""
        self.begin(capacity, self.length)

    def stop_recording(self, why: str) -> None:
        """From now on every forward runs as it does without. The cache, which may be half made, begins anew."""
        self.stopped = why
        self._recordings.clear()
        self._room = sys.maxsize
        self.runner.kv.clear()

    @torch.inference_mode()
    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """Append ids [n]; logits [rows, vocab_size], hidden [n, len(aux_layers) * width] of the named layers."""
        n = len(ids)
        replay = self._recordings.fitting(n, self.length + n)
        if replay is None or aux_layers not in ((), self.aux_layers):
            return self.runner.forward(ids, rows, aux_layers)
        self._ids[:n].copy_(ids)
        self._start.fill_(self.length)
        replay()
        self.runner.kv.advance(ids)
        return Output(self._logits[n - rows : n], self._hidden[:n] if aux_layers else None)

    def _record(self, room: int, keep: int) -> None:
        """Move the cache to where there is so much room, and record every shape over it."""
        runner, most = self.runner, self._rows[0]
        self._recordings.clear()
        self._room = 0
        runner.begin(room + most, keep)  # recording writes its rows behind all that may be held
        if runner.kv.layers[0].keys is None:  # made by the first forward
            runner.forward(self._ids[:1], 0)
            runner.rewind(0)
        capacity = runner.kv.capacity
        self._cos, self._sin = rotary_tables(runner.rotary, capacity, self.device)
        norm = runner.weights.norm
        width = len(self.aux_layers) * len(norm)
        self._logits = norm.new_zeros(most, self.vocab_size)
        self._hidden = norm.new_zeros(most, width)
        self._start.fill_(capacity - most)
        self._recordings.record(self._rows, capacity, self._work)
        self._room = capacity - most

    def _work(self, n: int, span: int) -> Work:
        """The forward of n rows over the first `span` keys, from ids and start to logits and hidden states."""
        shape, weights, layers = self.runner.shape, self.runner.weights, self.runner.kv.layers
        merged = weights.norm.dtype == torch.float32
        by: Attend = attend_merged if merged else attend_rows

        def work() -> None:
            places = self._start + torch.arange(n, device=self.device)
            cos, sin = self._cos.index_select(0, places), self._sin.index_select(0, places)
            keys = torch.arange(span, device=self.device)
            masks = {
                window: mask_of(places, keys, window, weights.norm) for window in {one.window for one in weights.layers}
            }
            if merged:
                group = shape.heads // shape.kv_heads
                masks = {window: mask.repeat_interleave(group, dim=0) for window, mask in masks.items()}

            def attend(index: int, layer: Layer, x: Tensor) -> Tensor:
                q, k, v = queries_keys_values(shape, layer, x, cos, sin)
                held = write_at(layers[index], places, k, v)
                return by(q, *(t[:, :span] for t in held), masks[layer.window], shape.scale).reshape(n, -1)

            x, hidden = through_layers(shape, weights, self._ids[:n], attend, self.aux_layers)
            self._logits[:n].copy_(logits_of(shape, weights, x))
            if hidden is not None:
                self._hidden[:n].copy_(hidden)

        return work


def write_at(layer: LayerKV, places: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Put keys and values [n, kv_heads, dim] to their places [n]; all of the layer's, [kv_heads, capacity, dim]."""
    held = layer.keys[0], layer.values[0]
    for room, rows in zip(held, (keys, values), strict=True):
        room.index_copy_(1, places, rows.transpose(0, 1))
    return held
