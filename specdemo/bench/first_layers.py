"""A draft that every target has: its own first layers, under its own embedding, last norm and head.

Untrained, so it is seldom right; but it is cheap, shares the tokenizer, and costs both sides of a comparison the same.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from specdemo.models.general_runner import decoder_layers


def save_first_layers(source: Path, folder: Path, layers: int, dtype: torch.dtype) -> None:
    """Write the first `layers` layers of the model in `source`, with its tokenizer, as a model folder of its own."""
    target = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, local_files_only=True)
    draft = first_layers(target, layers)
    draft.save_pretrained(folder)
    for file in source.iterdir():
        if file.name.startswith(("tokenizer", "chat_template", "special_tokens")):
            (folder / file.name).write_bytes(file.read_bytes())


def first_layers(target: PreTrainedModel, layers: int) -> PreTrainedModel:
    """The same model cut after `layers` layers; the weights are the target's own tensors."""
    config = AutoConfig.for_model(**target.config.to_dict())
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    with torch.device("meta"):
        draft = AutoModelForCausalLM.from_config(config, dtype=target.dtype)
    names = draft.state_dict().keys()
    draft.load_state_dict({k: v for k, v in target.state_dict().items() if k in names}, assign=True)
    draft.tie_weights()
    assert len(decoder_layers(draft, config)) == layers
    return draft.eval()
