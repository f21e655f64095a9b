"""Which target is distilled, and how is it loaded? Any folder or hub id; the embedded one by default."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from specdemo.decoding.linear import Packed, packs
from specdemo.models.embedded import NAME, embedded_folder


def load_target(
    target: str | None, dtype: str | None = None, threads: int | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """The model, its tokenizer and a name to print, on the GPU where there is one."""
    if threads:
        torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype) if dtype else torch.bfloat16 if device == "cuda" else torch.float32
    folder = embedded_folder() if target is None else target
    name = NAME if target is None else Path(target).name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind, device_map={"": device})
    return model.eval().requires_grad_(False), tokenizer, name


def pack_products(model: PreTrainedModel) -> None:
    """Lay the weights of the model's products out for oneDNN, where it multiplies them faster.

    The model can then only run: its plain matrices are given up, but for the head's, which embeddings may share.
    """
    for module in model.modules():
        if type(module) is nn.Linear and packs(module.weight.device, module.weight.dtype):
            module.forward = Packed(module.weight, module.bias)
            if module is not model.get_output_embeddings():
                module.weight = nn.Parameter(torch.empty(0), requires_grad=False)
