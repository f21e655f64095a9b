"""What SmolLM2-135M-Instruct is: its configuration, tokenizer and chat template, and how its GGUF becomes a folder.

The weights of the GGUF are stored as float32, which holds scale * q + least of a Q4_1 block as ggml computes it; half
precision would not.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from specdemo.models.gguf import GGUF
from specdemo.models.progress import Progress

HEADS, KEY_HEADS, CONTEXT = 9, 3, 8192
SHAPE = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
    "tie_word_embeddings": True,
}
SPECIAL_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
SPECIAL_TOKENS = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
    "pad_token": "<|im_end|>",
}
CHAT_TEMPLATE = """\
{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL = 3  # GGUF's mark of a control token


def convert(gguf: GGUF, folder: Path, progress: Progress) -> None:
    """Write config, tokenizer and float32 weights into an empty folder. OSError when the disk does not take them."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    weights = {}
    for done, (name, weight) in enumerate(gguf.tensors()):
        progress(done / len(gguf), "Converting SmolLM2-135M")
        weights[transformers_name(name)] = unpermuted(name, weight)
    progress(None, "Writing SmolLM2-135M into the cache")
    try:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    except SafetensorError as error:  # it wraps the system's error in its own text
        full = "os error 28" in str(error) or "No space left" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error
    write_config(folder, "float32")
    write_tokenizer(folder, tokenizer_from(gguf.metadata))


def transformers_name(name: str) -> str:
    """blk.7.attn_q.weight -> model.layers.7.self_attn.q_proj.weight"""
    *layer, part, suffix = name.split(".")
    return ".".join(["model", *(["layers", layer[1]] if layer else []), NAMES[part], suffix])


def unpermuted(name: str, weight: np.ndarray) -> np.ndarray:
    """q and k as transformers rotates them: by halves of a head, where ggml's order pairs neighbouring rows."""
    heads = {"attn_q": HEADS, "attn_k": KEY_HEADS}.get(name.split(".")[-2])
    if heads is None:
        return weight
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def tokenizer_from(metadata: dict[str, Any]) -> Tokenizer:
    """The model's own tokenizer: digits stand alone, then GPT-2's split, which transformers' GGUF reader leaves out."""
    vocabulary = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(BPE({token: index for index, token in enumerate(vocabulary)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(vocabulary, metadata["tokenizer.ggml.token_type"], strict=True)
    control = [AddedToken(token, special=True, normalized=False) for token, kind in kinds if kind == CONTROL]
    tokenizer.add_special_tokens(control)
    return tokenizer


def write_config(folder: Path, dtype: str) -> None:
    """config.json and generation_config.json, with the dtype the weights are stored in."""
    from transformers import GenerationConfig, LlamaConfig

    config = LlamaConfig(**SHAPE, **SPECIAL_IDS, dtype=dtype, architectures=["LlamaForCausalLM"])
    config.save_pretrained(folder)
    GenerationConfig(**SPECIAL_IDS).save_pretrained(folder)


def write_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """tokenizer.json, tokenizer_config.json and the chat template.

    The generic class is named on purpose: transformers' GPT2Tokenizer replaces the pre-tokenizer by its own.
    """
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        **SPECIAL_TOKENS,
    ).save_pretrained(folder)
