"""Which pairs of open models play well together, and how much memory does each take? By name, smallest first.

Shapes are the models' own configurations, so that a preset's need is known before anything is fetched. Imports neither
torch nor transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

APACHE = "apache-2.0"


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model on the hub. shape: of its configuration, what its size depends on. gated: terms to be accepted first.

    head: an EAGLE-3 head; its shape is the speculators layout's.
    """

    repository: str
    licence: str
    shape: Mapping[str, Any] = field(repr=False)
    gated: bool = False
    head: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A target with its draft. memory: of a GPU that takes both in bf16, in GiB."""

    name: str
    memory: int
    target: OpenModel
    draft: OpenModel


def _shape(kind: str, vocab: int, hidden: int, inner: int, layers: int, heads: int, keys: int, **rest: Any) -> dict:
    return {
        "model_type": kind,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "tie_word_embeddings": False,
        **rest,
    }


def _qwen3(hidden: int, inner: int, layers: int, heads: int, **rest: Any) -> dict:
    return _shape("qwen3", 151936, hidden, inner, layers, heads, 8, head_dim=128, max_position_embeddings=40960, **rest)


def _head(hidden: int, inner: int, vocab: int, kind: str) -> dict:
    layer = _shape(kind, vocab, hidden, inner, 1, 32, 8, head_dim=128)
    return {"speculators_model_type": "eagle3", "draft_vocab_size": 32000, "transformer_layer_config": layer}


TIED: dict[str, Any] = {"tie_word_embeddings": True}

SMOLLM2_1B7 = OpenModel(
    "HuggingFaceTB/SmolLM2-1.7B-Instruct",
    APACHE,
    _shape("llama", 49152, 2048, 8192, 24, 32, 32, max_position_embeddings=8192, **TIED),
)
SMOLLM2_135M = OpenModel(
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    APACHE,
    _shape("llama", 49152, 576, 1536, 30, 9, 3, max_position_embeddings=8192, **TIED),
)
QWEN25_7B = OpenModel(
    "Qwen/Qwen2.5-7B-Instruct",
    APACHE,
    _shape("qwen2", 152064, 3584, 18944, 28, 28, 4, max_position_embeddings=32768),
)
_QWEN25_0B5 = _shape("qwen2", 151936, 896, 4864, 24, 14, 2, max_position_embeddings=32768, **TIED)
QWEN25_0B5 = OpenModel("Qwen/Qwen2.5-0.5B-Instruct", APACHE, _QWEN25_0B5)
CODER_0B5 = OpenModel("Qwen/Qwen2.5-Coder-0.5B-Instruct", APACHE, _QWEN25_0B5)
CODER_14B = OpenModel(
    "Qwen/Qwen2.5-Coder-14B-Instruct",
    APACHE,
    _shape("qwen2", 152064, 5120, 13824, 48, 40, 8, max_position_embeddings=32768),
)
QWEN3_0B6 = OpenModel("Qwen/Qwen3-0.6B", APACHE, _qwen3(1024, 3072, 28, 16, **TIED))
QWEN3_1B7 = OpenModel("Qwen/Qwen3-1.7B", APACHE, _qwen3(2048, 6144, 28, 16, **TIED))
QWEN3_4B = OpenModel("Qwen/Qwen3-4B", APACHE, _qwen3(2560, 9728, 36, 32, **TIED))
QWEN3_8B = OpenModel("Qwen/Qwen3-8B", APACHE, _qwen3(4096, 12288, 36, 32))
QWEN3_14B = OpenModel("Qwen/Qwen3-14B", APACHE, _qwen3(5120, 17408, 40, 40))
QWEN3_32B = OpenModel("Qwen/Qwen3-32B", APACHE, _qwen3(5120, 25600, 64, 64))
LLAMA31_8B = OpenModel(
    "meta-llama/Llama-3.1-8B-Instruct",
    "llama3.1",
    _shape("llama", 128256, 4096, 14336, 32, 32, 8, max_position_embeddings=131072),
    gated=True,
)
LLAMA32_1B = OpenModel(
    "meta-llama/Llama-3.2-1B-Instruct",
    "llama3.2",
    _shape("llama", 128256, 2048, 8192, 16, 32, 8, head_dim=64, max_position_embeddings=131072, **TIED),
    gated=True,
)
_SEEING = {  # the tower that sees, which is loaded with the text model
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 896,
    "vision_use_head": False,
}
GEMMA3_12B = OpenModel(
    "google/gemma-3-12b-it",
    "gemma",
    {
        "model_type": "gemma3",
        "text_config": _shape(
            "gemma3_text", 262208, 3840, 15360, 48, 16, 8, head_dim=256, max_position_embeddings=131072, **TIED
        ),
        "vision_config": _SEEING,
    },
    gated=True,
)
GEMMA3_1B = OpenModel(
    "google/gemma-3-1b-it",
    "gemma",
    _shape("gemma3_text", 262144, 1152, 6912, 26, 4, 1, head_dim=256, max_position_embeddings=32768, **TIED),
    gated=True,
)
OLMO2_7B = OpenModel(
    "allenai/OLMo-2-1124-7B-Instruct",
    APACHE,
    _shape("olmo2", 100352, 4096, 11008, 32, 32, 32, max_position_embeddings=4096),
)
OLMO2_1B = OpenModel(
    "allenai/OLMo-2-0425-1B-Instruct",
    APACHE,
    _shape("olmo2", 100352, 2048, 8192, 16, 16, 16, max_position_embeddings=4096),
)
EAGLE3_QWEN3_8B = OpenModel(
    "RedHatAI/Qwen3-8B-speculator.eagle3", APACHE, _head(4096, 12288, 151936, "llama"), head=True
)
EAGLE3_LLAMA31_8B = OpenModel(
    "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
    "on its page",
    _head(4096, 14336, 128256, "llama"),
    head=True,
)

PRESETS = {
    preset.name: preset
    for preset in (
        Preset("smollm2-1.7b", 8, SMOLLM2_1B7, SMOLLM2_135M),
        Preset("qwen3-1.7b", 8, QWEN3_1B7, QWEN3_0B6),
        Preset("qwen3-4b", 16, QWEN3_4B, QWEN3_0B6),
        Preset("qwen2.5-7b", 24, QWEN25_7B, QWEN25_0B5),
        Preset("qwen3-8b", 24, QWEN3_8B, QWEN3_0B6),
        Preset("qwen3-8b-eagle3", 24, QWEN3_8B, EAGLE3_QWEN3_8B),
        Preset("llama-3.1-8b", 24, LLAMA31_8B, LLAMA32_1B),
        Preset("llama-3.1-8b-eagle3", 24, LLAMA31_8B, EAGLE3_LLAMA31_8B),
        Preset("olmo-2-7b", 24, OLMO2_7B, OLMO2_1B),
        Preset("gemma-3-12b", 48, GEMMA3_12B, GEMMA3_1B),
        Preset("qwen2.5-coder-14b", 48, CODER_14B, CODER_0B5),
        Preset("qwen3-14b", 48, QWEN3_14B, QWEN3_1B7),
        Preset("qwen3-32b", 80, QWEN3_32B, QWEN3_1B7),
    )
}


def drafts_for(title: str, kind: str, vocab: int) -> list[str]:
    """Hub ids of drafts that should fit a target: its own preset's, else those of its family.

    title: the target's hub id or folder; kind and vocab: its text configuration's model type and vocabulary.
    """
    name = title.rpartition("/")[2].lower()
    own = [p.draft for p in PRESETS.values() if p.target.repository.rpartition("/")[2].lower() == name]
    family = [p.draft for p in PRESETS.values() if _kin(p, kind, vocab) and not p.draft.head]
    return list(dict.fromkeys(draft.repository for draft in own or family if draft.repository != title))


def _kin(preset: Preset, kind: str, vocab: int) -> bool:
    shapes = [model.shape.get("text_config", model.shape) for model in (preset.target, preset.draft)]
    return any((shape.get("model_type"), shape.get("vocab_size")) == (kind, vocab) for shape in shapes)
