"""A look inside a KV cache."""

from __future__ import annotations

from torch import Tensor

from specdemo.decoding.kv import KVCache


def held(cache: KVCache, index: int) -> tuple[Tensor, Tensor]:
    """Copies of the held keys and values of one layer, [kv_heads, length, dim]."""
    layer = cache.layers[index]
    return tuple(t[0, :, : cache.length].clone() for t in (layer.keys, layer.values))
