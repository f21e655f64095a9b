"""How much memory does a pair take, known before it is loaded; and what happens when there is not enough?

Weights are counted off the model's own classes, built without numbers: tied ones once, quantised layers as
bitsandbytes holds them. Caches, logits and what a device takes for itself come on top.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.base import get_keys_to_not_convert

from specdemo.decoding.kv import round_up
from specdemo.decoding.linear import halves, packs
from specdemo.models.auto import auto_class
from specdemo.models.errors import MemoryShort
from specdemo.models.head_files import layer_config
from specdemo.models.lean import largest_stack, why_not
from specdemo.models.pair_options import USUAL_GAMMA, USUAL_TOKENS
from specdemo.models.precision import Precision, compute_dtype, refuse_cpu_shape, stored_quantisation

CUDA_CONTEXT = 1_000_000_000  # what CUDA, its libraries and a prefill's rows take beside tensors
BLOCK, OUTER_BLOCK = 64, 256  # values that share a scale in nf4, and scales that share one under double quantisation
TABLES = 64, 1088  # bytes of nf4's code; of it with the code and the offset of double quantisation
LOGIT_COPIES = 4  # as computed, in float32, processed, and before processing
CLOSE = 0.9  # share of the free memory from which a pair is said to fit narrowly


@dataclass(frozen=True, slots=True)
class Part:
    """One model in one precision, in bytes. packing: what more is held while its weights are packed or stacked.

    per_token: of its cache. vocabulary: width of its logits.
    """

    weights: int
    packing: int
    per_token: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Need:
    """What a pair takes, in bytes. caches: of both lanes over the target. peak: the most that is held at once.

    per_token: what all caches grow by for a token more, of text or of γ.
    """

    target: int
    draft: int
    caches: int
    draft_cache: int
    logits: int
    context: int
    peak: int
    per_token: int

    @property
    def total(self) -> int:
        """Everything, once both are loaded and a race runs."""
        return self.target + self.draft + self.caches + self.draft_cache + self.logits + self.context

    def __str__(self) -> str:
        weights = f"weights {gigabytes(self.target)}" + (f" + {gigabytes(self.draft)}" if self.draft else "")
        caches = gigabytes(self.caches + self.draft_cache)
        context = f", context {gigabytes(self.context)}" if self.context else ""
        return f"{weights}, caches {caches}, logits {gigabytes(self.logits)}{context}"


def gigabytes(n: float) -> str:
    """Bytes for a person: 1e9 of them are a GB; below a tenth of one they are MB, below a tenth of that kB."""
    if n >= 1e8:
        return f"{n / 1e9:.1f} GB"
    return f"{n / 1e6:.1f} MB" if n >= 1e5 or not n else f"{n / 1e3:.1f} kB"


def part(config: PreTrainedConfig, precision: Precision, device: torch.device, double: bool = False) -> Part:
    """A causal language model's, from its configuration alone. double: int4 quantises its scales, too."""
    return part_of(skeleton(config), precision, device, double)


def part_of(model: PreTrainedModel, precision: Precision, device: torch.device, double: bool = False) -> Part:
    """The same from a skeleton, which takes the precision's dtype."""
    dtype, config = compute_dtype(precision, device), model.config
    model.to(dtype)
    weights = _plain_bytes(model)
    if precision.quantised:
        weights += sum(_saved(module, dtype, precision, double) for _, module in _converted(model))
    text = config.get_text_config(decoder=True)
    rows = torch.float32 if halves(device, dtype) else dtype
    packing = 0
    if not precision.quantised and not why_not(model):
        packing = largest_stack(model)
        if packs(device, dtype) or halves(device, dtype):
            packing = weights  # each matrix twice, until all are packed
            weights += model.get_output_embeddings().weight.nbytes  # the head is packed beside the embedding
    return Part(weights, packing, cache_bytes(text, rows, 1), text.vocab_size)


def head_part(config: Mapping[str, Any], target: PreTrainedConfig, dtype: torch.dtype) -> Part:
    """An EAGLE-3 head's, from its config.json; an embedding of its own counts. target: the text configuration."""
    layer = layer_config(dict(config))
    width, inner = layer.hidden_size, layer.intermediate_size
    dim = getattr(layer, "head_dim", None) or width // layer.num_attention_heads
    queries, keys = layer.num_attention_heads * dim, layer.num_key_value_heads * dim
    layers = layer.num_hidden_layers * (width * (2 * queries + 2 * keys) + 3 * width * inner)
    layers += width * (queries + 2 * keys)  # the first one reads two rows side by side
    drafted = config.get("draft_vocab_size") or layer.vocab_size
    parameters = 3 * target.hidden_size * width + layers + (drafted + layer.vocab_size) * width
    size = dtype.itemsize
    return Part(parameters * size, 0, 2 * keys * layer.num_hidden_layers * size, target.vocab_size)


def need(
    target: Part, draft: Part | None, device: torch.device, tokens: int = USUAL_TOKENS, gamma: int = USUAL_GAMMA
) -> Need:
    """What the pair takes in a race of so many tokens, prompt and answer together, and drafts of so many."""
    held = round_up(tokens + gamma)
    context = CUDA_CONTEXT if device.type == "cuda" else 0
    drafted = draft.weights if draft else 0
    caches, draft_cache = 2 * target.per_token * held, draft.per_token * held if draft else 0
    logits = (LOGIT_COPIES * (gamma + 1) + (gamma if draft else 0)) * target.vocabulary * 4
    settled = target.weights + drafted + caches + draft_cache + logits + context
    loading = target.weights + drafted + context + max(target.packing, draft.packing if draft else 0)
    per_token = 2 * target.per_token + (draft.per_token if draft else 0)
    return Need(target.weights, drafted, caches, draft_cache, logits, context, max(settled, loading), per_token)


def cache_bytes(text: PreTrainedConfig, dtype: torch.dtype, tokens: int) -> int:
    """Of one cache over so many tokens. Windows keep all keys, so that rewinding stays possible.

    Layers may differ in their heads, and some may read the keys of others, as in Gemma 3n and 4.
    """
    layers = getattr(text, "per_layer_config", None) or [text] * text.num_hidden_layers
    reused = getattr(text, "kv_sharing_modes", None) or [None] * text.num_hidden_layers
    width = 0
    for layer in (one for one, mode in zip(layers, reused, strict=True) if mode != "reuse"):
        heads = getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads
        width += heads * (getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads)
    return 2 * width * dtype.itemsize * tokens


def skeleton(config: PreTrainedConfig) -> PreTrainedModel:
    """The model's classes and shapes, without its numbers."""
    config = copy.deepcopy(config)
    if stored_quantisation(config):
        del config.quantization_config
    with torch.device("meta"):
        return auto_class(config).from_config(config, dtype=torch.float32, trust_remote_code=False)


def refuse_cpu_shapes(config: PreTrainedConfig, precision: Precision, device: torch.device) -> None:
    """Raise ModelUnavailable, naming the layer, where int4 would fail on this CPU; asked before weights are read."""
    if precision is not Precision.INT4 or device.type != "cpu":
        return
    for name, module in _converted(skeleton(config)):
        outputs, inputs = module.weight.shape[::-1] if isinstance(module, Conv1D) else module.weight.shape
        refuse_cpu_shape(name, inputs, outputs)


def free_bytes(device: torch.device) -> int:
    """Memory that may still be taken on this device."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available


def held_bytes(model: nn.Module) -> int:
    """What a loaded model's weights, buffers and scales really take; shared storage once."""
    sizes = {}
    for tensor in _tensors(model):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is a device's or the system's way to say that memory is short."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError | MemoryShort):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        said in text
        for said in (
            "not enough memory",
            "can't allocate memory",
            "cannot allocate memory",
            "cuda error: out of memory",
            "_status_alloc_failed",  # of cuBLAS and cuDNN, whose workspaces are memory, too
        )
    )


def collect() -> None:
    """Give back what nobody holds any more: cyclic garbage, and blocks that the device's allocator keeps."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _plain_bytes(model: PreTrainedModel) -> int:
    return sum(tensor.nbytes for tensor in {id(t): t for t in chain(model.parameters(), model.buffers())}.values())


def _converted(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module]]:
    """The layers that bitsandbytes takes over, by name: all linear ones but the head and what is tied to it."""
    kept = get_keys_to_not_convert(model)
    for name, module in model.named_modules():
        linear = type(module) is nn.Linear or isinstance(module, Conv1D)
        if linear and not any(name == one or name.startswith(f"{one}.") for one in kept):
            yield name, module


def _saved(module: nn.Module, dtype: torch.dtype, precision: Precision, double: bool) -> int:
    """What a layer's matrix takes when it is quantised, less what it takes in this dtype."""
    n = module.weight.numel()
    rows = module.weight.shape[1 if isinstance(module, Conv1D) else 0]
    return _quantised(n, rows, precision, double) - n * dtype.itemsize


def _quantised(n: int, rows: int, precision: Precision, double: bool) -> int:
    if precision is Precision.INT8:
        return n + 4 * rows
    blocks = ceil(n / BLOCK)
    scales = blocks + 4 * ceil(blocks / OUTER_BLOCK) if double else 4 * blocks
    return ceil(n / 2) + scales + TABLES[double]


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    for module in model.modules():
        for tensor in chain(module.parameters(recurse=False), module.buffers(recurse=False)):
            yield tensor
            yield from _scales(getattr(tensor, "quant_state", None))
            if isinstance(getattr(tensor, "SCB", None), Tensor):
                yield tensor.SCB
        state = getattr(module, "state", None)  # where int8 keeps its scales once it has run
        if isinstance(getattr(state, "SCB", None), Tensor):
            yield state.SCB


def _scales(state: Any) -> Iterator[Tensor]:
    """The tensors of a 4-bit matrix's state, and of the state of its scales."""
    if state is None:
        return
    yield from (one for one in (state.absmax, state.code, state.offset) if isinstance(one, Tensor))
    yield from _scales(state.state2)
