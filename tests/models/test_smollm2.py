"""The embedded model is converted into what transformers' Llama expects."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from specdemo.models import smollm2
from specdemo.models.progress import silent


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's own reordering of q and k (convert_hf_to_gguf.py)."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


@pytest.mark.parametrize(("name", "heads"), [("blk.0.attn_q.weight", 9), ("blk.29.attn_k.weight", 3)])
def test_q_and_k_are_put_back_as_transformers_rotates_them(name: str, heads: int) -> None:
    weight = np.arange(64 * heads * 5, dtype=np.float32).reshape(64 * heads, 5)
    assert np.array_equal(smollm2.unpermuted(name, permuted(weight, heads)), weight)


def test_other_tensors_stay_as_they_are() -> None:
    weight = np.arange(64 * 9 * 5, dtype=np.float32).reshape(64 * 9, 5)
    assert np.array_equal(smollm2.unpermuted("blk.0.attn_v.weight", weight), weight)


@pytest.mark.parametrize(
    ("gguf", "transformers"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.12.attn_output.weight", "model.layers.12.self_attn.o_proj.weight"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ],
)
def test_names(gguf: str, transformers: str) -> None:
    assert smollm2.transformers_name(gguf) == transformers


def test_a_disk_that_fills_up_under_the_weights_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(list):
        def tensors(self) -> list[tuple[str, np.ndarray]]:
            return []

    def full(*args: object, **kwargs: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    with pytest.raises(OSError) as error:
        smollm2.convert(Empty(), tmp_path, silent)
    assert error.value.errno == errno.ENOSPC


@pytest.mark.embedded
def test_the_converted_folder_is_an_ordinary_model_that_answers(embedded: Path, tokenizer: object) -> None:
    model = AutoModelForCausalLM.from_pretrained(embedded)
    assert model.dtype == torch.float32
    assert model.num_parameters() == 134_515_008
    assert model.config.rope_parameters["rope_theta"] == 100_000
    assert model.generation_config.eos_token_id == 2
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    answer = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"
