"""Models of real shapes with random weights, made where they are to run: a step costs what it costs, whatever it says.

The shapes are those that the models' public configurations state.
"""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config

from specdemo.bench.random_head import random_head
from specdemo.decoding.forward import LeanRunner
from specdemo.drafters.head import HeadDrafter
from specdemo.models.lean import lean_runner, release

QWEN_7B = Qwen2Config(  # Qwen/Qwen2.5-7B-Instruct
    vocab_size=152064,
    hidden_size=3584,
    intermediate_size=18944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    max_position_embeddings=32768,
    rms_norm_eps=1e-6,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    tie_word_embeddings=False,
)
QWEN_HALF_B = Qwen2Config(  # Qwen/Qwen2.5-0.5B-Instruct
    vocab_size=151936,
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    max_position_embeddings=32768,
    rms_norm_eps=1e-6,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    tie_word_embeddings=True,
)
LLAMA_8B = LlamaConfig(  # meta-llama/Llama-3.1-8B-Instruct
    vocab_size=128256,
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=131072,
    rms_norm_eps=1e-5,
    rope_parameters={
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    tie_word_embeddings=False,
)
EAGLE3_VOCABULARY = 32000  # of the EAGLE-3 heads published for it


def random_runner(
    config: PreTrainedConfig, device: torch.device, dtype: torch.dtype, vocab_size: int | None = None
) -> LeanRunner:
    """The lean forward over a model of this configuration, its weights held once; logits cut to vocab_size."""
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    runner = lean_runner(model)
    release(model)
    return runner.twin(vocab_size)


def random_head_for(config: PreTrainedConfig, target: LeanRunner, max_length: int) -> HeadDrafter:
    """An EAGLE-3 head for that target."""
    return random_head(config, target.weights.embedding, target.vocab_size, max_length, EAGLE3_VOCABULARY)


def bytes_read(config: PreTrainedConfig, dtype: torch.dtype) -> int:
    """Of weights, by a plain step: all, but for an embedding that is no head as well: it reads a row of that."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    read = sum(weight.nbytes for weight in model.parameters())  # tied ones are listed once
    return read if config.tie_word_embeddings else read - model.get_input_embeddings().weight.nbytes
