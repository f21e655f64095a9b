"""Reads an EAGLE-3 head from a folder: the speculators layout, or the original EAGLE-3 checkpoint's names.

A head that does not fit its target is refused with the mismatch named, before any of its weights is used.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specdemo.decoding.linear import Linear, linear, row_dtype
from specdemo.drafters.head import HeadConfig, HeadDrafter, HeadLayer, HeadWeights
from specdemo.models import hub
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.progress import Progress, silent

OTHERS = "Take a head that was trained for this very target, a model of its family, or n-gram lookup."
AGAIN = "Fetch all of it again, or choose another."
_LAYER_TYPES = ("llama", "qwen3")  # what the speculators package itself builds


@dataclass(frozen=True, slots=True)
class HeadSource:
    """A head that is known but not loaded. repository: set when its weights must still be fetched from the hub."""

    title: str
    folder: Path
    repository: str | None = None


def find_head(name: str, progress: Progress = silent) -> HeadSource | None:
    """The head in a folder or hub repository; None where it holds something else, or cannot be looked into."""
    path = hub.named_path(name)
    if path.is_dir():
        return HeadSource(path.resolve().name, path) if is_head(path) else None
    if path.exists() or path.is_absolute() or name.startswith((".", "~")) or "/" not in name:
        return None
    folder = hub.download(name, ["config.json"], progress, f"Looking up {name}")
    return HeadSource(name, folder, name) if is_head(folder) else None


def usual_layers(count: int) -> tuple[int, int, int]:
    """Which of a target's `count` layers EAGLE-3 reads where nothing else is said: id k is what k layers have made."""
    return 2, count // 2, count - 3


def is_head(folder: Path) -> bool:
    """Whether a folder holds an EAGLE-3 head, in either layout."""
    try:
        config = read_config(folder)
    except ModelUnavailable:
        return False
    if not isinstance(config, dict):
        return False
    return config.get("speculators_model_type") == "eagle3" or "draft_vocab_size" in config


def refuse_unfit_head(source: HeadSource, target: PreTrainedConfig) -> None:
    """Raise PairRefused where a head does not fit this text configuration, as far as what is here already says.

    A head whose weights are still to be fetched is asked again when it is loaded.
    """
    config = read_config(source.folder)
    layer = layer_config(config)
    shapes: dict[str, Sequence[int]] = {}
    for file in source.folder.glob("*.safetensors"):
        try:
            with safe_open(file, "pt") as opened:
                shapes |= {_known(name): opened.get_slice(name).get_shape() for name in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return  # loading says what is wrong with it
    if shapes:
        _refuse_incomplete(source.folder, shapes)
        _head_config(config, layer, target, shapes, target.vocab_size)


def load_head(
    source: HeadSource, target: PreTrainedConfig, embed: Tensor, vocab_size: int, progress: Progress = silent
) -> HeadDrafter:
    """The head, for a target with this text configuration and input embedding [vocab, width].

    vocab_size: width of the target's logits as the lanes use them. Weights take the embedding's dtype and device.
    Raises ModelUnavailable, or PairRefused with the mismatch.
    """
    folder = source.folder
    if source.repository:
        hub.download(source.repository, ["*.json", "*.safetensors"], progress, f"Downloading {source.title}")
    config = read_config(folder)
    layer = layer_config(config)
    tensors = _read_tensors(folder)
    head = _head_config(config, layer, target, {name: t.shape for name, t in tensors.items()}, vocab_size)
    place, dtype = {"dtype": embed.dtype, "device": embed.device}, row_dtype(embed)
    ids = _target_ids(tensors, vocab_size).to(embed.device)
    tensors = {name: t.to(**place) for name, t in tensors.items() if t.is_floating_point()}
    cos, sin = _rotary_tables(layer, head.max_length + 1)
    weights = HeadWeights(
        embed=tensors.get("embed_tokens.weight", embed),
        fc=linear(tensors["fc.weight"]),
        layers=[_layer(tensors, i, dtype) for i in range(layer.num_hidden_layers)],
        norm=tensors["norm.weight"].to(dtype),
        lm_head=linear(tensors["lm_head.weight"]),
        target_ids=ids,
        cos=cos.to(embed.device, dtype),
        sin=sin.to(embed.device, dtype),
        fc_norms=tuple(norm.to(dtype) for norm in _fc_norms(config, tensors, len(head.aux_layers))),
    )
    return HeadDrafter(head, weights)


def read_config(folder: Path) -> dict[str, Any]:
    """A head's config.json. Raises ModelUnavailable."""
    try:
        return json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"{folder} holds no readable config.json, so no head can be loaded from it.", AGAIN
        ) from error


def layer_config(config: dict[str, Any]) -> PreTrainedConfig:
    """The configuration of the head's decoder layers: nested in the speculators layout, flat in the original one."""
    layer = dict(config.get("transformer_layer_config") or config)
    kind = layer.pop("model_type", "llama")
    if kind not in _LAYER_TYPES:
        raise PairRefused(f"The head's layers are of type {kind}; {' and '.join(_LAYER_TYPES)} are supported.", OTHERS)
    if layer.get("hidden_act", "silu") != "silu":
        raise PairRefused(f"The head's activation is {layer['hidden_act']}; only silu is supported.", OTHERS)
    for key in ("architectures", "torch_dtype", "dtype", "transformers_version"):
        layer.pop(key, None)
    return AutoConfig.for_model(kind, **layer)


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelUnavailable(f"{folder} has no safetensors file; pickled weights are not read. Convert them first.")
    try:
        tensors = {name: t for file in files for name, t in load_file(file).items()}
    except (SafetensorError, OSError) as error:
        raise ModelUnavailable(f"The head's weights in {folder} cannot be read ({error}). Fetch them again.") from error
    tensors = {_known(name): t for name, t in tensors.items()}
    _refuse_incomplete(folder, tensors)
    return tensors


def _known(name: str) -> str:
    """A weight's name as ours are: the original EAGLE-3 checkpoints call the one layer "midlayer"."""
    return name.replace("midlayer.", "layers.0.")


def _refuse_incomplete(folder: Path, names: Collection[str]) -> None:
    missing = {"fc.weight", "norm.weight", "lm_head.weight", "layers.0.hidden_norm.weight"} - set(names)
    if missing:
        raise ModelUnavailable(
            f"The head in {folder} lacks {', '.join(sorted(missing))}: it is not a whole EAGLE-3 head.", AGAIN
        )


def _head_config(
    config: dict[str, Any],
    layer: PreTrainedConfig,
    target: PreTrainedConfig,
    shapes: Mapping[str, Sequence[int]],
    vocab: int,
) -> HeadConfig:
    read, width = shapes["fc.weight"][1], target.hidden_size
    if read % width:
        raise PairRefused(
            f"The head reads hidden states of width {read} in all, which is no multiple of the target's hidden "
            f"size {width}: it was made for another target.",
            OTHERS,
        )
    # ids count the layers that have run: id k is the output of decoder layer k - 1, as vLLM and speculators have it
    count = target.num_hidden_layers
    ids = config.get("eagle_aux_hidden_state_layer_ids") or config.get("eagle_config", {}).get(
        "eagle_aux_hidden_state_layer_ids"
    )
    ids = ids or usual_layers(count)
    if len(ids) != read // width:
        raise PairRefused(f"The head names {len(ids)} target layers but reads {read // width} of this width.", OTHERS)
    if not all(1 <= i <= count for i in ids):
        raise PairRefused(f"The head reads target layers {ids}; the target has {count}.", OTHERS)
    if "embed_tokens.weight" not in shapes and layer.hidden_size != width:
        raise PairRefused(
            f"The head is {layer.hidden_size} wide, the target {width}, and it brings no embedding of its own.", OTHERS
        )
    full = shapes["t2d"][0] if "t2d" in shapes else layer.vocab_size
    if full < vocab:
        raise PairRefused(f"The head was made for {full:,} tokens; the target has {vocab:,}.", OTHERS)
    return HeadConfig(
        hidden_size=layer.hidden_size,
        heads=layer.num_attention_heads,
        key_heads=layer.num_key_value_heads,
        head_dim=getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads,
        eps=layer.rms_norm_eps,
        aux_layers=tuple(i - 1 for i in ids),
        vocab_size=vocab,
        max_length=min(layer.max_position_embeddings, target.max_position_embeddings),
        norm_before_residual=config.get("norm_before_residual", False),
        norm_output=config.get("norm_output", False),
    )


def _target_ids(tensors: dict[str, Tensor], vocab_size: int) -> Tensor:
    """[draft vocab] the target's id of each draft token: its own index plus d2t's offset."""
    ids = torch.arange(tensors["lm_head.weight"].shape[0])
    if "d2t" in tensors:
        ids = ids + tensors["d2t"].long()
    if ids.min() < 0 or ids.max() >= vocab_size:
        raise PairRefused(
            f"The head's d2t table names token {int(ids.max()):,}; the target has {vocab_size:,}.", OTHERS
        )
    return ids


def _fc_norms(config: dict[str, Any], tensors: dict[str, Tensor], count: int) -> tuple[Tensor, ...]:
    if config.get("norm_before_fc"):
        return (tensors["input_norm.weight"],)
    if config.get("fc_norm"):
        return tuple(tensors[f"fc_norm.{i}.weight"] for i in range(count))
    return ()


def _rotary_tables(layer: PreTrainedConfig, positions: int) -> tuple[Tensor, Tensor]:
    """cos, sin [positions, head_dim] from transformers' own rotary module, scaling included."""
    rotary = LlamaRotaryEmbedding(layer)
    cos, sin = rotary(torch.zeros(1), torch.arange(positions)[None])
    return cos[0], sin[0]


def _layer(tensors: dict[str, Tensor], index: int, dtype: torch.dtype) -> HeadLayer:
    at = f"layers.{index}."

    def stacked(*names: str) -> Linear:
        """Matrices that read the same rows, as one."""
        weights, biases = ([tensors.get(f"{at}{name}.{kind}") for name in names] for kind in ("weight", "bias"))
        return linear(torch.cat(weights), None if biases[0] is None else torch.cat(biases))

    def norm(name: str) -> Tensor | None:
        weight = tensors.get(f"{at}{name}.weight")
        return None if weight is None else weight.to(dtype)

    return HeadLayer(
        input_norm=norm("input_layernorm"),
        post_norm=norm("post_attention_layernorm"),
        qkv=stacked("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        o=stacked("self_attn.o_proj"),
        gate_up=stacked("mlp.gate_proj", "mlp.up_proj"),
        down=stacked("mlp.down_proj"),
        hidden_norm=norm("hidden_norm"),
        q_norm=norm("self_attn.q_norm"),
        k_norm=norm("self_attn.k_norm"),
    )
