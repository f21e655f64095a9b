"""Layers that read the keys of earlier ones hold none; a model of such layers is raced like any other."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.drafters.model import ModelDrafter
from specdemo.models.runners import make_runner
from tests.tiny import noised

PROMPT, NEW = list(range(3, 20)), 16  # past the window


def sharing_gemma(kind: str) -> PreTrainedModel:
    """Of four layers two read the keys of others; in Gemma 4 those that see all have wider heads."""
    sizes = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 4, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8, "num_kv_shared_layers": 2}
    inputs = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 128, "initializer_range": 0.3}
    kinds = {"layer_types": ["sliding_attention", "full_attention"] * 2, "tie_word_embeddings": False}
    none = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = AutoConfig.for_model(kind, **sizes, **heads, **inputs, **kinds, **none)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.mark.parametrize("kind", ["gemma3n_text", "gemma4_text"])
def test_both_lanes_write_what_generate_writes(kind: str) -> None:
    model = sharing_gemma(kind)
    drafter = ModelDrafter(make_runner(noised(model, 0.02)))
    ways = (
        autoregressive(make_runner(model), PROMPT, SamplingParams(), Ending(Limits(NEW, 100), len(PROMPT))),
        speculative(
            make_runner(model),
            drafter,
            PROMPT,
            SamplingParams(),
            Rule.SHARED_NOISE,
            4,
            Ending(Limits(NEW, 100), len(PROMPT)),
        ),
    )
    texts = [[token.id for step in steps for token in step.tokens] for steps in ways]
    stock = model.generate(torch.tensor([PROMPT]), max_new_tokens=NEW, do_sample=False)[0, len(PROMPT) :].tolist()
    assert texts == [stock, stock] and len(set(stock)) > 5
