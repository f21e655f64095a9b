"""A head of one layer with random weights, as wide as its target: what a draft step costs, whatever it would draft."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specdemo.decoding.linear import Linear, linear, row_dtype
from specdemo.drafters.head import HeadConfig, HeadDrafter, HeadLayer, HeadWeights

DRAFT_VOCABULARY = 8192


def random_head(
    config: PreTrainedConfig,
    embedding: Tensor,
    vocab_size: int,
    max_length: int,
    draft_vocabulary: int = DRAFT_VOCABULARY,
) -> HeadDrafter:
    """An EAGLE-3 head for a target with this text configuration and embedding [vocab, width], in its dtype."""
    width, count = config.hidden_size, config.num_hidden_layers
    key_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or width // config.num_attention_heads
    place = {"dtype": embedding.dtype, "device": embedding.device}
    generator = torch.Generator().manual_seed(0)

    def matrix(outputs: int, inputs: int) -> Linear:
        return linear((torch.randn(outputs, inputs, generator=generator) * inputs**-0.5).to(**place))

    rows = {"dtype": row_dtype(embedding), "device": embedding.device}
    norm = torch.ones(width, **rows)
    layer = HeadLayer(
        input_norm=norm,
        post_norm=norm,
        hidden_norm=norm,
        qkv=matrix((config.num_attention_heads + 2 * key_heads) * head_dim, 2 * width),
        o=matrix(width, config.num_attention_heads * head_dim),
        gate_up=matrix(2 * config.intermediate_size, width),
        down=matrix(width, config.intermediate_size),
    )
    aux_layers = (min(1, count - 1), count // 2, count - 1)
    ids = torch.arange(min(draft_vocabulary, vocab_size), device=embedding.device)
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(max_length + 1)[None])
    weights = HeadWeights(
        embed=embedding,
        fc=matrix(width, len(aux_layers) * width),
        layers=[layer],
        norm=norm,
        lm_head=matrix(len(ids), width),
        target_ids=ids,
        cos=cos[0].to(**rows),
        sin=sin[0].to(**rows),
    )
    heads = {"heads": config.num_attention_heads, "key_heads": key_heads, "head_dim": head_dim}
    shape = HeadConfig(width, **heads, eps=1e-5, aux_layers=aux_layers, vocab_size=vocab_size, max_length=max_length)
    return HeadDrafter(shape, weights)
