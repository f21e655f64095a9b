"""How does a transformers model attend over a preallocated cache without repeating K and V or masking in each layer?

An attention function and its mask, registered with transformers under NAME. It replaces the `sdpa` ones while a
GeneralRunner runs a model; `model.generate` elsewhere keeps the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "specdemo_grouped"
CUSTOM = ("position_bias", "s_aux", "softcap")  # what some models ask of attention; sdpa's own wrapper knows them


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Attention of query [1, heads, n, dim] over key, value [1, kv_heads, length, dim]; returns [1, n, heads, dim].

    The heads of a group become the batch's heads over one expanded (stride 0) key head: no K/V repeat at any n.
    Whatever else a model asks for (position bias, sinks) goes the stock way.
    """
    if query.shape[0] != 1 or any(kwargs.get(name) is not None for name in CUSTOM):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal=is_causal, **kwargs
        )
    _, heads, n, dim = query.shape
    kv_heads, length = key.shape[1], key.shape[2]
    group = heads // kv_heads
    causal = (
        n > 1 and attention_mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal)
    )
    if n == 1:  # the group's heads are rows that see the same keys
        query, keys, values = query.view(1, kv_heads, group, dim), key, value
    else:
        query = query.view(kv_heads, group, n, dim)
        keys = key.view(kv_heads, 1, length, -1).expand(-1, group, -1, -1)
        values = value.view(kv_heads, 1, length, -1).expand(-1, group, -1, -1)
    out = F.scaled_dot_product_attention(
        query, keys, values, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, is_causal=causal
    )
    return out.reshape(1, heads, n, -1).transpose(1, 2).contiguous(), None


def additive_mask(*args: object, dtype: torch.dtype = torch.float32, **kwargs: object) -> Tensor | None:
    """transformers' own boolean mask, made additive once per forward: sdpa would convert it in every layer."""
    mask = sdpa_mask(*args, dtype=dtype, **kwargs)
    return None if mask is None else torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, additive_mask)


def fits(model: PreTrainedModel, config: PreTrainedConfig) -> bool:
    """Whether this model looks its attention up by name and now uses plain sdpa."""
    return config._attn_implementation == "sdpa" and model._supports_attention_backend


@contextmanager
def attend_by(name: str, config: PreTrainedConfig) -> Iterator[None]:
    """Within: models of this configuration attend by the function that is registered under this name."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
