"""What is the cheapest right forward of a Llama-like decoder? This one: few operations, packed weights, few rows.

It takes plain tensors and knows no model names (models/lean.py reads a transformers model into it). A row's result
does not depend on how many rows are computed beside it: products are packed ones, keys are read in blocks of 32 with
the surplus masked, and attention always has enough query rows for one and the same matrix kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from specdemo.decoding.kv import KVCache, round_up
from specdemo.decoding.linear import Halved, Linear
from specdemo.decoding.norm import rms_norm
from specdemo.decoding.runner import Output

FEW = 32  # up to so many rows is decoding or verification; more is prefill, and another kernel is cheaper
# A matrix product of fewer query rows than this takes another kernel in MKL, with other bits (measured: 4).
LEAST_QUERIES = 4
# And of a sum over fewer keys than this, MKL's order of summing depends on the number of keys (measured: 193 to 383).
LEAST_SPAN = 384

Rotary = Callable[[Tensor], tuple[Tensor, Tensor]]
"""rotary(positions [n]) -> cos, sin [n, head_dim], each half repeated, as transformers' rotary modules give them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a decoder's configuration says. scale: what query-key products are multiplied by."""

    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    scale: float
    vocab_size: int
    max_length: int


@dataclass(slots=True)
class Layer:
    """One decoder layer. qkv and gate_up are the model's matrices stacked; window None is full attention."""

    input_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear
    window: int | None


@dataclass(slots=True)
class Weights:
    """A whole decoder: embedding [vocab, width], its layers, the last norm and the head over the vocabulary.

    Norms and tables have the dtype of rows (`row_dtype`); the embedding may be narrower.
    """

    embedding: Tensor
    layers: list[Layer]
    norm: Tensor
    head: Linear


class LeanRunner:
    """A Llama-like decoder over one sequence (see decoding/runner.py). Outputs are inference tensors."""

    notice = ""

    def __init__(self, shape: Shape, weights: Weights, rotary: Rotary) -> None:
        self.shape, self.weights, self.rotary = shape, weights, rotary
        self.vocab_size, self.max_length = shape.vocab_size, shape.max_length
        self.device = weights.embedding.device
        self.kv = KVCache(len(weights.layers))
        self._windows = {layer.window for layer in weights.layers}
        self.dtype = weights.norm.dtype  # of everything but the weights of products
        self._cos = self._sin = torch.empty(0)

    @property
    def shapes(self) -> tuple[int, ...]:
        """Numbers of rows whose forwards have the same bits where not all have; see EqualShapes. Empty: none needed."""
        return Halved.SHAPES if isinstance(self.weights.head, Halved) else ()

    @property
    def length(self) -> int:
        """Tokens held now."""
        return self.kv.length

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that the cache holds."""
        return self.kv.held(ids)

    @torch.inference_mode()
    def begin(self, capacity: int, keep: int = 0) -> None:
        """Empty the cache, but for the first `keep` tokens, and make room for `capacity` in all."""
        self.kv.begin(max(capacity, LEAST_SPAN), keep)
        if len(self._cos) < self.kv.capacity:
            self._cos, self._sin = rotary_tables(self.rotary, self.kv.capacity, self.device)

    def twin(self, vocab_size: int | None = None) -> LeanRunner:
        """Another runner over the same weights, with a cache of its own; logits cut to vocab_size."""
        shape = replace(self.shape, vocab_size=vocab_size or self.shape.vocab_size)
        return LeanRunner(shape, self.weights, self.rotary)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.kv.rewind(length)

    @torch.inference_mode()
    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """Append ids [n]; logits [rows, vocab_size], hidden [n, len(aux_layers) * width] of the named layers."""
        here = self._place(len(ids))
        x, hidden = through_layers(
            self.shape, self.weights, ids, lambda i, layer, x: self._attend(i, layer, x, here), aux_layers
        )
        self.kv.advance(ids)
        return Output(logits_of(self.shape, self.weights, x[len(ids) - rows :]), hidden)

    def _place(self, n: int) -> _Place:
        """What every layer needs to know about the next n positions, made once per forward."""
        start, span = self.length, max(round_up(self.length + n), LEAST_SPAN)
        attend = attend_block if n > FEW else attend_merged if self.dtype == torch.float32 else attend_rows
        masks = {}
        for window in self._windows:
            first = start if attend is attend_merged and (window is None or start + n <= window) else 0
            masks[window] = causal_mask(n, start, first, span, window, self.weights.norm)
            if attend is attend_merged:
                masks[window] = masks[window].repeat_interleave(self.shape.heads // self.shape.kv_heads, dim=0)
        return _Place(span, self._cos[start : start + n], self._sin[start : start + n], attend, masks)

    def _attend(self, index: int, layer: Layer, x: Tensor, here: _Place) -> Tensor:
        """Attention of the n new rows x over all held ones and themselves; writes their keys and values."""
        q, k, v = queries_keys_values(self.shape, layer, x, here.cos, here.sin)
        self.kv.write(index, k.transpose(0, 1)[None], v.transpose(0, 1)[None])
        held = self.kv.layers[index]
        keys, values = held.keys[0, :, : here.span], held.values[0, :, : here.span]
        return here.attend(q, keys, values, here.masks[layer.window], self.shape.scale).reshape(len(x), -1)


AttendLayer = Callable[[int, Layer, Tensor], Tensor]
"""attend(index, layer, normed rows [n, width]) -> what the rows see [n, heads * dim]; keys and values are its own."""


def through_layers(
    shape: Shape, weights: Weights, ids: Tensor, attend: AttendLayer, aux_layers: tuple[int, ...]
) -> tuple[Tensor, Tensor | None]:
    """Rows [n, width] of ids [n] behind the last layer, and hidden (see runner.Output)."""
    x = F.embedding(ids, weights.embedding).to(weights.norm.dtype)
    outputs = {}
    for index, layer in enumerate(weights.layers):
        x = layer.o.add(attend(index, layer, rms_norm(x, layer.input_norm, shape.norm_eps)), x)
        gate, up = layer.gate_up(rms_norm(x, layer.post_norm, shape.norm_eps)).chunk(2, dim=-1)
        x = layer.down.add(F.silu(gate).mul_(up), x)
        if index in aux_layers:
            outputs[index] = x
    return x, torch.cat([outputs[i] for i in aux_layers], dim=-1) if aux_layers else None


def logits_of(shape: Shape, weights: Weights, x: Tensor) -> Tensor:
    """[rows, vocab_size] of rows [rows, width] behind the last layer, perhaps of none."""
    if not len(x):
        return x.new_empty(0, shape.vocab_size)
    return weights.head(rms_norm(x, weights.norm, shape.norm_eps))[:, : shape.vocab_size]


def queries_keys_values(
    shape: Shape, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Of rows [n, width]: q [n, kv_heads, group, dim], k and v [n, kv_heads, dim], turned by cos, sin [n, 1, dim]."""
    n, heads, both, dim = len(x), shape.heads, shape.heads + shape.kv_heads, shape.head_dim
    qkv = layer.qkv(x).view(n, both + shape.kv_heads, dim)
    qk, v = qkv[:, :both], qkv[:, both:]
    if layer.q_norm is not None:
        q_k = ((qk[:, :heads], layer.q_norm), (qk[:, heads:], layer.k_norm))
        qk = torch.cat([rms_norm(part, norm, shape.norm_eps) for part, norm in q_k], dim=1)
    swapped = qk.view(n, both, 2, dim // 2).flip(2).view(n, both, dim)
    qk = torch.addcmul(qk * cos, swapped, sin)
    return qk[:, :heads].unflatten(1, (shape.kv_heads, -1)), qk[:, heads:], v


def rotary_tables(rotary: Rotary, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin [length, 1, head_dim] for `queries_keys_values`."""
    cos, sin = rotary(torch.arange(length, device=device))
    half = cos.shape[-1] // 2
    # rotate_half(x) * sin is flip(x halves) * sin with the first half's sign turned
    return cos[:, None], torch.cat((-sin[:, :half], sin[:, half:]), dim=-1)[:, None]


Attend = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where n new rows stand. span: keys read, rounded up. cos, sin: [n, 1, head_dim]. masks: one per window."""

    span: int
    cos: Tensor
    sin: Tensor
    attend: Attend
    masks: dict[int | None, Tensor]


def causal_mask(n: int, start: int, first: int, span: int, window: int | None, like: Tensor) -> Tensor:
    """Additive mask [n, span - first]: rows at start.., keys at first..; -inf where a row may not look."""
    rows = torch.arange(start, start + n, device=like.device)
    return mask_of(rows, torch.arange(first, span, device=like.device), window, like)


def mask_of(rows: Tensor, keys: Tensor, window: int | None, like: Tensor) -> Tensor:
    """The same [n, m] for rows at places [n] and keys at places [m]."""
    query = rows[:, None]
    hidden = keys > query
    if window is not None:
        hidden |= keys <= query - window
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)


def attend_merged(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Few rows, all those of one key head in one product: fastest in fp32.

    q: [n, kv_heads, group, dim]; keys, values: [kv_heads, span, dim]; mask [n * group, width] of the last `width`
    keys. Returns a tensor shaped as q.
    """
    n, kv_heads, group, dim = q.shape
    queries = q.transpose(0, 1).reshape(kv_heads, n * group, dim)
    if n * group < LEAST_QUERIES:
        queries = queries.repeat(1, LEAST_QUERIES, 1)
    scores = torch.baddbmm(q.new_empty(1), queries, keys.transpose(1, 2), beta=0, alpha=scale)
    scores[:, : n * group, -mask.shape[1] :].add_(mask)  # [kv_heads, n * group, span]
    out = torch.bmm(torch.softmax(scores, dim=-1), values)
    return out[:, : n * group].view(kv_heads, n, group, dim).transpose(0, 1)


def attend_rows(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Few rows, each a batch entry of its own: same bits for any n in half precision. mask: [n, span]."""
    n = len(q)
    keys, values = (t.expand(n, -1, -1, -1) for t in (keys, values))
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None, None], scale=scale)


def attend_block(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Many rows (prefill): scores are never held whole. mask: [n, span]."""
    group = q.shape[2]
    keys, values = (t[:, None].expand(-1, group, -1, -1) for t in (keys, values))
    out = F.scaled_dot_product_attention(q.permute(1, 2, 0, 3), keys, values, attn_mask=mask, scale=scale)
    return out.permute(2, 0, 1, 3)
