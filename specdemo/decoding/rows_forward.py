"""How does the lean forward run many sequences at once? All their rows in each product, each over its own keys.

Products read the weights once for all sequences: that is what a batch saves, and what a draft saves at batch 1. A
row's result is that of the same sequence alone, up to rounding: kernels may depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specdemo.decoding.forward import (
    Layer,
    LeanRunner,
    logits_of,
    queries_keys_values,
    rotary_tables,
    through_layers,
)
from specdemo.decoding.kv import round_up
from specdemo.decoding.rows_kv import RowsKV
from specdemo.decoding.runner import Output


@dataclass(frozen=True, slots=True)
class Place:
    """Where the new columns of b sequences stand. first: the first sequence's row. columns: [b, n].

    span: columns read. masks: one per window, additive [b, 1, n * group, span], in the order of merged queries.
    """

    first: int
    columns: Tensor
    span: int
    masks: dict[int | None, Tensor]


def place(
    first: int, starts: Sequence[int], n: int, group: int, windows: set[int | None], like: Tensor, most: int
) -> Place:
    """n new columns of each sequence, behind the starts [b] that are held; at most `most` columns are ever read."""
    begun = torch.tensor(starts, device=like.device)
    columns = begun[:, None] + torch.arange(n, device=like.device)
    span = min(round_up(max(starts) + n), most)
    key, query = torch.arange(span, device=like.device), columns[..., None]
    masks = {}
    for window in windows:
        hidden = key > query if window is None else (key > query) | (key <= query - window)  # [b, n, span]
        mask = like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        masks[window] = mask.repeat_interleave(group, dim=1)[:, None]
    return Place(first, columns, span, masks)


def attend(q: Tensor, kv: RowsKV, here: Place, window: int | None, scale: float | None) -> Tensor:
    """q [b, n, kv_heads, group, dim] over what its sequences hold: [b * n, heads * dim].

    The heads of a group are queries that see the same keys: nothing is repeated.
    """
    b, n, kv_heads, group, dim = q.shape
    keys, values = (held[here.first : here.first + b, :, : here.span] for held in (kv.keys, kv.values))
    merged = q.transpose(1, 2).reshape(b, kv_heads, n * group, dim)
    out = F.scaled_dot_product_attention(merged, keys, values, attn_mask=here.masks[window], scale=scale)
    return out.view(b, kv_heads, n, group, dim).transpose(1, 2).reshape(b * n, -1)


class LeanRows:
    """A Llama-like decoder over many sequences (see batched.RowsRunner), on the weights of a LeanRunner."""

    def __init__(self, runner: LeanRunner) -> None:
        self.shape, self.weights, self._rotary = runner.shape, runner.weights, runner.rotary
        self.vocab_size, self.max_length, self.device = runner.vocab_size, runner.max_length, runner.device
        self._windows = {layer.window for layer in self.weights.layers}
        self._group = self.shape.heads // self.shape.kv_heads
        self._layers: list[RowsKV] = []

    @torch.inference_mode()
    def begin(self, rows: int, columns: int) -> None:
        """Room for so many sequences of so many tokens; what was held is forgotten."""
        self._layers = [RowsKV(rows, columns) for _ in self.weights.layers]
        self._cos, self._sin = rotary_tables(self._rotary, columns, self.device)

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, starts: Sequence[int], first: int = 0, rows: int | None = None, aux: tuple[int, ...] = ()
    ) -> Output:
        """Write ids [b, n] behind what each row holds: logits [b, rows, vocab] of the last `rows`, hidden [b, n, ...].

        starts: tokens that rows first .. first + b hold. rows: None is all n.
        """
        b, n = ids.shape
        here = place(first, starts, n, self._group, self._windows, self.weights.norm, self._layers[0].columns)
        cos, sin = (table[here.columns.flatten()] for table in (self._cos, self._sin))

        def see(index: int, layer: Layer, x: Tensor) -> Tensor:
            q, k, v = queries_keys_values(self.shape, layer, x, cos, sin)
            kv = self._layers[index]
            kv.write(first, here.columns, k.unflatten(0, (b, n)), v.unflatten(0, (b, n)))
            return attend(q.unflatten(0, (b, n)), kv, here, layer.window, self.shape.scale)

        x, hidden = through_layers(self.shape, self.weights, ids.flatten(), see, aux)
        kept = n if rows is None else rows
        logits = logits_of(self.shape, self.weights, x.view(b, n, -1)[:, n - kept :].reshape(b * kept, -1))
        return Output(logits.view(b, kept, -1), None if hidden is None else hidden.view(b, n, -1))

    def move(self, source: int, target: int, length: int) -> None:
        """The first `length` tokens of one row over another."""
        for kv in self._layers:
            kv.move(source, target, length)
