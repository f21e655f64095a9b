"""Tiny random models for tests: four architectures, fp32, fixed seeds; and the same model with noise on its weights.

A noised copy is a draft that agrees with its target sometimes. Two independent random models agree almost never, and
a test with such a pair tests nothing.
"""

from __future__ import annotations

import copy

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

# Wide enough a spread that a tiny model's next tokens are neither all alike nor all near-ties.
SPREAD = 0.3
CONTEXT = 512


def tiny_llama(vocab_size: int = 256, seed: int = 0, layers: int = 3) -> LlamaForCausalLM:
    """Llama with grouped queries (4 heads over 2 key heads), tied embeddings, as SmolLM2 has them."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        **_common(),
    )
    return _build(LlamaForCausalLM, config, seed)


def tiny_qwen2(vocab_size: int = 200, seed: int = 1) -> Qwen2ForCausalLM:
    """Qwen2: biases on q, k and v."""
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        tie_word_embeddings=False,
        **_common(),
    )
    return _build(Qwen2ForCausalLM, config, seed)


def tiny_qwen3(vocab_size: int = 160, seed: int = 2) -> Qwen3ForCausalLM:
    """Qwen3: norms on q and k, a head width that is not hidden size over heads."""
    config = Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        **_common(),
    )
    return _build(Qwen3ForCausalLM, config, seed)


def tiny_gpt2(vocab_size: int = 128, seed: int = 3) -> GPT2LMHeadModel:
    """GPT-2: learned positions, layer norms, no grouped queries."""
    config = GPT2Config(
        vocab_size=vocab_size,
        n_embd=48,
        n_layer=2,
        n_head=4,
        n_positions=CONTEXT,
        initializer_range=SPREAD,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return _build(GPT2LMHeadModel, config, seed)


def noised(model: PreTrainedModel, scale: float, seed: int = 7) -> PreTrainedModel:
    """A copy whose matrices carry gaussian noise of `scale` times their own standard deviation.

    0.03 leaves between 0.4 and 0.9 of the greedy tokens of these models as they were.
    """
    twin = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in twin.parameters():  # tied weights are listed once
            if weight.dim() > 1:
                noise = torch.randn(weight.shape, generator=generator)
                weight += (scale * weight.std() * noise).to(weight.device, weight.dtype)
    return twin


def _common() -> dict[str, object]:
    """No special ids: random models would meet them by chance and stop."""
    return {
        "max_position_embeddings": CONTEXT,
        "initializer_range": SPREAD,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def _build(kind: type[PreTrainedModel], config: object, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config).eval()
