"""What a pair takes is known before it is loaded, within three hundredths of what its weights then take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, PreTrainedModel

from specdemo.decoding.linear import halves, packs
from specdemo.models import memory
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.loading import find_model, load_model
from specdemo.models.memory import Part, cache_bytes, head_part, held_bytes, is_out_of_memory, need, part
from specdemo.models.precision import Precision
from specdemo.models.presets import PRESETS
from tests.models.test_shared_keys import sharing_gemma
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2, tiny_qwen3

CPU = torch.device("cpu")
FP32, BF16, FP16, INT8, INT4 = Precision
HEADS = Path(__file__).parents[1] / "data" / "heads"


@pytest.mark.parametrize(
    ("build", "precision", "double"),
    [
        (tiny_llama, FP32, False),
        (tiny_llama, BF16, False),
        (tiny_llama, FP16, False),
        (tiny_llama, INT8, False),
        (tiny_llama, INT4, False),
        (tiny_llama, INT4, True),
        (tiny_qwen2, BF16, False),
        (tiny_qwen2, INT8, False),
        (tiny_qwen3, FP32, False),
        (tiny_gpt2, FP32, False),
        (tiny_gpt2, INT8, False),
    ],
)
def test_weights_are_foreseen(
    save_model: Callable[..., Path], build: Callable[[], PreTrainedModel], precision: Precision, double: bool
) -> None:
    source = find_model(str(save_model("model", build())))
    loaded = load_model(source, precision, CPU, double_quantisation=double)
    measured = held_bytes(loaded.model)
    foreseen = part(source.config, precision, CPU, double)
    head = loaded.model.get_output_embeddings().weight  # packed, it stands beside the embedding
    packed = foreseen.packing > 0 and (packs(CPU, head.dtype) or halves(CPU, head.dtype))
    assert foreseen.weights - packed * head.nbytes == pytest.approx(measured, rel=0.03)


def test_tied_weights_are_counted_once() -> None:
    tied, loose = tiny_llama().config, tiny_llama().config
    loose.tie_word_embeddings = False
    assert part(loose, FP32, CPU).weights - part(tied, FP32, CPU).weights == tied.vocab_size * tied.hidden_size * 4


def gemma4() -> PreTrainedModel:
    return sharing_gemma("gemma4_text")


@pytest.mark.parametrize("build", [tiny_llama, tiny_qwen3, tiny_gpt2, gemma4])
def test_a_cache_is_foreseen_to_the_byte(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    runner = GeneralRunner(model)
    runner.begin(64)
    runner.forward(torch.arange(5), rows=1)
    held = sum(t.nbytes for layer in runner.kv.layers for t in (layer.keys, layer.values) if t is not None)
    assert cache_bytes(model.config, torch.float32, 64) == held


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_a_heads_weights_are_foreseen(name: str) -> None:
    folder = HEADS / name
    config = json.loads((folder / "config.json").read_text())
    tensors = {key: t for file in folder.glob("*.safetensors") for key, t in load_file(file).items()}
    held = sum(t.numel() * 4 for t in tensors.values() if t.is_floating_point())
    width = tensors["fc.weight"].shape[1] // 3
    target = AutoConfig.for_model("llama", hidden_size=width, num_attention_heads=1, vocab_size=256)
    own = "embed_tokens.weight" in tensors
    embedding = 0 if own else config["transformer_layer_config"]["vocab_size"] * tensors["fc.weight"].shape[0] * 4
    assert head_part(config, target, torch.float32).weights - embedding == pytest.approx(held, rel=0.03)


def test_a_need_is_the_sum_of_its_parts() -> None:
    target, draft = Part(1000, 0, 10, 100), Part(200, 0, 5, 100)
    one = need(target, draft, CPU, tokens=60, gamma=3)
    assert (one.caches, one.draft_cache) == (2 * 10 * 64, 5 * 64)  # both lanes; room in blocks of 32 tokens
    assert one.logits == (4 * 4 + 3) * 100 * 4
    assert one.total == one.peak == 1000 + 200 + one.caches + one.draft_cache + one.logits
    assert need(target, None, CPU, tokens=60, gamma=3).draft == 0


def test_caches_grow_with_length_and_with_gamma() -> None:
    target = Part(1000, 0, 10, 100)
    assert need(target, None, CPU, 500, 16).caches > need(target, None, CPU, 500, 0).caches
    assert need(target, None, CPU, 2048, 0).caches == 4 * need(target, None, CPU, 512, 0).caches


def test_weights_that_are_packed_are_held_twice_meanwhile() -> None:
    assert need(Part(1000, 1000, 0, 1), None, CPU, 32, 0).peak == 2000


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("not enough memory"), False),
    ],
)
def test_what_says_that_memory_is_short(error: Exception, short: bool) -> None:
    assert is_out_of_memory(error) is short


# --- presets

PUBLISHED = {  # parameters as the models' pages give them
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1_711_376_384,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Llama-3.2-1B-Instruct": 1_235_814_400,
    "google/gemma-3-12b-it": 12_187_325_040,
    "google/gemma-3-1b-it": 999_885_952,
}


@pytest.mark.parametrize("repository", PUBLISHED)
def test_a_presets_shape_is_its_models(repository: str) -> None:
    models = (model for preset in PRESETS.values() for model in (preset.target, preset.draft))
    shape = next(model.shape for model in models if model.repository == repository)
    assert memory.skeleton(AutoConfig.for_model(**shape)).num_parameters() == PUBLISHED[repository]
