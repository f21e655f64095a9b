"""Which target is distilled, and how is it loaded? Any folder or hub id; the embedded one by default."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specdemo.decoding.linear import Packed, packs
from specdemo.models.loading import find_model, load_model, resolve_device
from specdemo.models.pair_options import EMBEDDED
from specdemo.models.precision import Precision

PRECISIONS = {"float32": Precision.FP32, "bfloat16": Precision.BF16}


def load_target(
    target: str | None, dtype: str | None = None, threads: int | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """The model, its tokenizer and a name to print, on the GPU where there is one. Raises ModelUnavailable."""
    if threads:
        torch.set_num_threads(threads)
    device = resolve_device(None)
    precision = PRECISIONS[dtype or ("bfloat16" if device.type == "cuda" else "float32")]
    source = find_model(target or EMBEDDED)
    model = load_model(source, precision, device).model
    return model.requires_grad_(False), source.tokenizer, source.title


def pack_products(model: PreTrainedModel) -> None:
    """Lay the weights of the model's products out for oneDNN, where it multiplies them faster.

    The model can then only run: its plain matrices are given up, but for the head's, which embeddings may share.
    """
    for module in model.modules():
        if type(module) is nn.Linear and packs(module.weight.device, module.weight.dtype):
            module.forward = Packed(module.weight, module.bias)
            if module is not model.get_output_embeddings():
                module.weight = nn.Parameter(torch.empty(0), requires_grad=False)
