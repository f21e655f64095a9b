"""Can this transformers model run as the lean forward, and how is it read into one? Nothing about it is guessed.

What is read is what the Llama family's configurations say (Llama, Mistral, SmolLM2, Qwen2, Qwen3); whatever else a
model has is a reason, in words, to say no. The self-check compares logits with the model's own forward.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM, MistralForCausalLM, PreTrainedModel, Qwen2ForCausalLM, Qwen3ForCausalLM

from specdemo.decoding.forward import Layer, LeanRunner, Shape, Weights
from specdemo.decoding.linear import Linear, Plain, linear, row_dtype

FAMILY = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
STATIC_ROPE = {"default", "linear", "llama3", "yarn"}  # tables that do not depend on the length of the context
DTYPES = {torch.float32, torch.bfloat16, torch.float16}
CHECKED = 200  # positions compared by the self-check


def why_not(model: PreTrainedModel) -> str:
    """A sentence that says why the lean forward does not fit this model; "" if it does."""
    config, kind = model.config, model.config.model_type
    if type(model) not in FAMILY:
        return f"The lean forward does not know {type(model).__name__} models."
    if config.hidden_act != "silu":
        return f"The lean forward has SiLU only, and this {kind} model uses {config.hidden_act}."
    if config.rope_parameters.get("rope_type", "default") not in STATIC_ROPE:
        return f"The lean forward cannot do the {config.rope_parameters['rope_type']} rotary scaling."
    products = [m for m in model.modules() if isinstance(m, nn.Linear)]
    if {type(m) for m in products} != {nn.Linear} or model.dtype not in DTYPES:
        return "The lean forward takes plain weights, and this model's are quantised or wrapped."
    if len({(p.device, p.dtype) for p in model.parameters()}) > 1:
        return "The lean forward takes weights of one device and one precision, and this model's are mixed."
    return ""


def lean_runner(model: PreTrainedModel) -> LeanRunner:
    """The model's weights as a LeanRunner. The model computes what it did; where nothing is packed, it shares them."""
    config, decoder = model.config, model.model
    dtype = row_dtype(model.lm_head.weight)
    attention = decoder.layers[0].self_attn
    shape = Shape(
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=attention.head_dim,
        norm_eps=config.rms_norm_eps,
        scale=attention.scaling,
        vocab_size=config.vocab_size,
        max_length=config.max_position_embeddings,
    )
    weights = Weights(
        embedding=model.get_input_embeddings().weight.detach(),
        layers=[_layer(block, window_of(model, i), dtype) for i, block in enumerate(decoder.layers)],
        norm=decoder.norm.weight.detach().to(dtype),
        head=linear(model.lm_head.weight.detach()),
    )

    rotary_module = decoder.rotary_emb  # alone: a runner must not keep the model's own matrices alive

    def rotary(positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = rotary_module(weights.norm, positions[None])
        return cos[0], sin[0]

    return LeanRunner(shape, weights, rotary)


def release(model: PreTrainedModel) -> None:
    """Give up the decoder layers' own matrices, so that weights are not held twice; the model cannot run any more."""
    for block in model.model.layers:
        for module in block.modules():
            if isinstance(module, nn.Linear):
                module.weight.data = module.weight.data.new_empty(0)


def window_of(model: PreTrainedModel, index: int) -> int | None:
    """The sliding window of one layer, as its modelling code applies it."""
    config = model.config
    if isinstance(model, MistralForCausalLM):
        return config.sliding_window
    if getattr(config, "layer_types", None) and config.layer_types[index] == "sliding_attention":
        return config.sliding_window
    return None


def _layer(block: nn.Module, window: int | None, dtype: torch.dtype) -> Layer:
    attention, mlp = block.self_attn, block.mlp
    return Layer(
        input_norm=block.input_layernorm.weight.detach().to(dtype),
        qkv=_stacked(attention.q_proj, attention.k_proj, attention.v_proj),
        q_norm=_norm(attention, "q_norm", dtype),
        k_norm=_norm(attention, "k_norm", dtype),
        o=_stacked(attention.o_proj),
        post_norm=block.post_attention_layernorm.weight.detach().to(dtype),
        gate_up=_stacked(mlp.gate_proj, mlp.up_proj),
        down=_stacked(mlp.down_proj),
        window=window,
    )


def _norm(attention: nn.Module, name: str, dtype: torch.dtype) -> Tensor | None:
    return getattr(attention, name).weight.detach().to(dtype) if hasattr(attention, name) else None


def _stacked(*parts: nn.Linear) -> Linear:
    """Matrices that read the same rows, as one."""
    bias = None if parts[0].bias is None else torch.cat([p.bias.detach() for p in parts])
    weight = parts[0].weight.detach() if len(parts) == 1 else torch.cat([p.weight.detach() for p in parts])
    product = linear(weight, bias)
    if isinstance(product, Plain):  # held twice, a model that fits its device would not fit it twice
        for part, rows in zip(parts, weight.split([p.out_features for p in parts]), strict=True):
            part.weight.data = rows
    return product


def largest_stack(model: PreTrainedModel) -> int:
    """Bytes of the largest of the matrices that are made of several: what a layer more takes while it is made."""
    mlp = model.model.layers[0].mlp
    return mlp.gate_proj.weight.nbytes + mlp.up_proj.weight.nbytes


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Lean against the model's own forward over `CHECKED` positions.

    error: the largest difference over the largest logit; rms: both as root mean squares.
    """

    error: float
    rms: float
    same_argmax: float

    def passed(self, dtype: torch.dtype) -> bool:
        """dtype: of the rows. fp32: within 1e-4 and the same argmax everywhere; halves: within their rounding."""
        if dtype == torch.float32:
            return self.error < 1e-4 and self.same_argmax == 1.0
        return self.rms < 0.1 and self.same_argmax > 0.9


@torch.inference_mode()
def self_check(runner: LeanRunner, model: PreTrainedModel) -> SelfCheck:
    """Compare the runner, in prefill and in steps of few rows, with the model over pseudo-random ids."""
    count = min(CHECKED, runner.max_length)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(runner.vocab_size, (count,), generator=generator).to(runner.device)
    # in the dtype of our rows, with the weights as they are
    parameters = {name: p.to(runner.dtype) for name, p in model.named_parameters()}
    output = torch.func.functional_call(model, parameters, ids[None], {"use_cache": False})
    expected = output.logits[0, :, : runner.vocab_size].float()
    runner.begin(count)
    half = count // 2
    sizes = [half, *(size for _ in range(count) for size in (1, 5, 2, 17))]  # prefill, then steps and verifications
    logits, done = [], 0
    for size in sizes:
        chunk = ids[done : done + size]
        if len(chunk):
            logits.append(runner.forward(chunk, len(chunk)).logits)
        done += len(chunk)
    logits = torch.cat(logits).float()
    runner.rewind(0)
    difference = logits - expected
    return SelfCheck(
        error=(difference.abs().max() / expected.abs().max()).item(),
        rms=(difference.norm() / expected.norm()).item(),
        same_argmax=(logits.argmax(-1) == expected.argmax(-1)).float().mean().item(),
    )
