"""Write a trained head as a folder that the field's engines read: the speculators EAGLE-3 layout, bf16 safetensors.

The folder is whole or not there: it is written beside its place and renamed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from specdemo.distill.head_model import mlp_units

# What a configuration of a decoder layer says of the target alone.
_NOT_THE_LAYERS = ("_name_or_path", "architectures", "dtype", "transformers_version")


@dataclass(frozen=True, slots=True)
class Card:
    """What the model card says. figures: lines to print, each with its number."""

    target: str
    licence: str
    data: str
    training: str
    figures: Sequence[str]


def export_head(
    folder: Path,
    head: dict[str, Tensor],
    draft_ids: Tensor,
    target: PreTrainedModel,
    layer_ids: Sequence[int],
    card: Card,
) -> int:
    """Write the head's folder; returns the bytes of its weights. layer_ids: as speculators count them."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    vocab_size = target.get_input_embeddings().weight.shape[0]
    tensors = {name: t.detach().cpu().to(torch.bfloat16).contiguous() for name, t in head.items()}
    tensors["d2t"] = draft_ids.cpu() - torch.arange(len(draft_ids))
    tensors["t2d"] = torch.zeros(vocab_size, dtype=torch.bool).index_fill_(0, draft_ids.cpu(), True)
    save_file(tensors, part / "model.safetensors", metadata={"format": "pt"})
    config = _config(head, len(draft_ids), target, layer_ids, card)
    (part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (part / "README.md").write_text(_readme(card))
    size = (part / "model.safetensors").stat().st_size
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return size


def read_head(folder: Path, layer_ids: Sequence[int]) -> tuple[dict[str, Tensor], Tensor]:
    """A head that `export_head` wrote, as a state dict in fp32, and its draft vocabulary as target ids.

    Raises ValueError where it is none, or reads other layers than these.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
        tensors = load_file(folder / "model.safetensors")
        read, offsets = config["eagle_aux_hidden_state_layer_ids"], tensors.pop("d2t")
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ValueError(f"{folder} holds no head that training could go on from ({error}).") from error
    if read != list(layer_ids):
        raise ValueError(f"The head in {folder} reads layers {read}: ask for the same with --layers.")
    del tensors["t2d"]
    return {name: t.float() for name, t in tensors.items()}, offsets + torch.arange(len(offsets))


def _config(
    head: dict[str, Tensor], draft_vocab: int, target: PreTrainedModel, layer_ids: Sequence[int], card: Card
) -> dict[str, object]:
    """config.json: one llama layer of the target's width, read by vLLM and speculators as well as here."""
    text = target.config.get_text_config(decoder=True)
    layer = {k: v for k, v in text.to_diff_dict().items() if k not in _NOT_THE_LAYERS}
    layer |= {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": text.hidden_size,
        "intermediate_size": mlp_units(head),
        "num_attention_heads": text.num_attention_heads,
        "num_key_value_heads": text.num_key_value_heads,
        "head_dim": head["layers.0.self_attn.o_proj.weight"].shape[1] // text.num_attention_heads,
        "hidden_act": "silu",
        "vocab_size": text.vocab_size,
        "max_position_embeddings": text.max_position_embeddings,
        "tie_word_embeddings": False,
    }
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": draft_vocab,
        "eagle_aux_hidden_state_layer_ids": list(layer_ids),
        "norm_before_residual": False,
        "norm_before_fc": False,
        "fc_norm": False,
        "norm_output": False,
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 4}],
            "verifier": {"name_or_path": card.target, "architectures": target.config.architectures},
        },
    }


def _readme(card: Card) -> str:
    figures = "\n".join(f"- {line}" for line in card.figures)
    return f"""---
license: {card.licence}
base_model: {card.target}
---
# EAGLE-3 head for {card.target}

A one-layer draft for speculative decoding, in the `speculators` layout, distilled from the target's own answers.

- Data: {card.data}
- Training: {card.training}

Measured on held-out prompts, every token before being the target's own:

{figures}
"""
