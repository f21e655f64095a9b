"""Models that see pictures, too, answer in text: they load, race and draft as others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedModel

from specdemo.decoding.params import SamplingParams
from specdemo.models.loading import find_model
from specdemo.models.memory import held_bytes, part
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.precision import Precision
from specdemo.race import Request, lanes
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401

TEXT = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
SIGHT = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
DEEP = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "out_hidden_size": 48}
THREE_AXES = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 1e4}}
WRAPPERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "qwen2_5_vl": (THREE_AXES, DEEP),
    "qwen3_vl": (THREE_AXES | {"head_dim": 12}, DEEP),
    "mistral3": ({"model_type": "mistral"}, SIGHT | {"model_type": "pixtral"}),
    "llava": ({"model_type": "llama"}, SIGHT | {"model_type": "clip_vision_model"}),
}


def wrapper(kind: str) -> PreTrainedModel:
    text, sight = WRAPPERS[kind]
    torch.manual_seed(6)
    config = AutoConfig.for_model(kind, text_config=TEXT | text, vision_config=sight)
    return AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()


@pytest.mark.parametrize("kind", WRAPPERS)
def test_both_lanes_write_what_the_model_itself_writes(save_model: Callable[..., Path], kind: str) -> None:
    model = wrapper(kind)
    folder = save_model("target", model, word_tokenizer(101))
    spec = PairSpec(str(folder), device="cpu", target_precision="fp32")
    ids = torch.tensor([3, 1, 4, 1, 5, 9])
    with torch.inference_mode():
        for _ in range(20):
            ids = torch.cat([ids, model(ids[None], use_cache=False).logits[0, -1].argmax()[None]])
    request = Request((3, 1, 4, 1, 5, 9), SamplingParams(), gamma=4, max_new_tokens=20)
    for drafter in ("ngram", str(folder)):
        pair = load_pair(PairSpec(str(folder), drafter, device="cpu", target_precision=spec.target_precision))
        wrote = [[t.id for step in lane for t in step.tokens] for lane in lanes(pair, request).values()]
        assert wrote[0] == wrote[1] == ids[6:].tolist()


@pytest.mark.parametrize("kind", WRAPPERS)
def test_its_weights_are_foreseen_with_those_that_see(save_model: Callable[..., Path], kind: str) -> None:
    model = wrapper(kind)
    source = find_model(str(save_model("target", model, word_tokenizer(101))))
    assert part(source.config, Precision.FP32, CPU).weights == pytest.approx(held_bytes(model), rel=0.03)
