"""In which number format a model is loaded, and in which it really was.

Float formats are torch dtypes. int8 (LLM.int8) and int4 (nf4) are bitsandbytes' linear layers; everything else in such
a model stays in the compute dtype: bfloat16 on a GPU that has it, float16 on one that has not, float32 on a CPU.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PreTrainedConfig, PreTrainedModel

from specdemo.models.errors import ModelUnavailable

# It warns at every forward of an int8 layer whose inputs are not float16: thousands of lines, and nothing to be done.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

CPU_INPUTS, CPU_OUTPUTS = 64, 32  # multiples that 4-bit's fast CPU kernel packs in


class Precision(StrEnum):
    """What a model's weights may be asked to be."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def quantised(self) -> bool:
        """Whether bitsandbytes holds the linear layers."""
        return self in (Precision.INT8, Precision.INT4)


# By name: bitsandbytes takes a second to import, and float models do without it.
LAYERS = {Precision.INT8: "Linear8bitLt", Precision.INT4: "Linear4bit"}
DTYPES = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


def parse_precision(name: str) -> Precision:
    """ModelUnavailable names the precisions there are."""
    try:
        return Precision(name)
    except ValueError:
        raise ModelUnavailable(f"There is no precision {name!r}: choose one of {', '.join(Precision)}.") from None


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The dtype of activations, and of every weight that is not quantised."""
    if not precision.quantised:
        return DTYPES[precision]
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def loading_arguments(
    precision: Precision, device: torch.device, config: PreTrainedConfig, double_quantisation: bool
) -> dict[str, Any]:
    """What from_pretrained must be told. ModelUnavailable where the stored weights are quantised otherwise."""
    dtype = compute_dtype(precision, device)
    stored = stored_quantisation(config)
    if stored not in (None, precision):
        raise ModelUnavailable(
            f"These weights are stored quantised ({stored}) and cannot be loaded as {precision}: "
            f"ask for {stored} if it is int8 or int4, or take the unquantised model."
        )
    if stored is Precision.INT4 and double_quantisation and not _quantisation(config).get("bnb_4bit_use_double_quant"):
        raise ModelUnavailable(
            "These weights are stored in int4 without double quantisation, and cannot be loaded with it: leave it off, "
            "or take the unquantised model."
        )
    if stored or not precision.quantised:
        return {"dtype": dtype}
    if precision is Precision.INT8:
        return {"dtype": dtype, "quantization_config": BitsAndBytesConfig(load_in_8bit=True)}
    return {
        "dtype": dtype,
        "quantization_config": BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",  # the default, fp4, is the worse of the two
            bnb_4bit_use_double_quant=double_quantisation,
            bnb_4bit_compute_dtype=dtype,
        ),
    }


def stored_quantisation(config: PreTrainedConfig) -> str | None:
    """int8, int4 or another method's name, when the stored weights are quantised already."""
    settings = _quantisation(config)
    if settings is None:
        return None
    if not isinstance(settings, dict):
        return "unknown method"
    if settings.get("load_in_8bit"):
        return Precision.INT8
    if settings.get("load_in_4bit"):
        return Precision.INT4
    return str(settings.get("quant_method", "unknown method"))


def _quantisation(config: PreTrainedConfig) -> Any:
    """What the configuration says of stored weights that are quantised: settings by name, if it is in order."""
    quantised = getattr(config, "quantization_config", None)
    return quantised.to_dict() if hasattr(quantised, "to_dict") else quantised


def refuse_foreign(title: str, config: PreTrainedConfig) -> None:
    """Raise ModelUnavailable where the stored weights are quantised by anything but bitsandbytes."""
    stored = stored_quantisation(config)
    if stored not in (None, Precision.INT8, Precision.INT4):
        raise ModelUnavailable(
            f"{title} is stored quantised by another method ({stored}), which is not read here.",
            "Take the unquantised model: it is loaded in int8 or int4 where that is asked for.",
        )


def loaded_precision(model: PreTrainedModel, asked: Precision) -> str:
    """What was really loaded, in words. ModelUnavailable if it is not what was asked for, or cannot run here."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    held = {precision: [m for m in linear if type(m).__name__ == kind] for precision, kind in LAYERS.items()}
    got = next((precision for precision, modules in held.items() if modules), None)
    if got is None:
        if asked.quantised or model.dtype != DTYPES[asked]:
            raise ModelUnavailable(f"{asked} was asked for, but the model came as {model.dtype}.")
        return str(asked)
    if got is not asked:
        raise ModelUnavailable(f"{asked} was asked for, but the model came as {got}.")
    quantised = held[got]
    layers = f"{len(quantised)} of {len(linear)} linear layers"
    return f"{got} ({_details(quantised[0])}{layers}, the rest {str(model.dtype).removeprefix('torch.')})"


def _details(layer: nn.Module) -> str:
    state = getattr(layer.weight, "quant_state", None)
    if state is None:
        return ""
    return f"{state.quant_type}{', double quantisation' if state.nested else ''}, "


def refuse_cpu_shape(name: str, inputs: int, outputs: int) -> None:
    """Raise ModelUnavailable where bitsandbytes' 4-bit kernel for this CPU takes no such layer.

    The one for CPUs with AVX512-BF16 asserts its shapes at the first forward: too late for a person.
    """
    from bitsandbytes.functional import has_avx512bf16

    if has_avx512bf16() and (inputs % CPU_INPUTS or outputs % CPU_OUTPUTS):
        raise ModelUnavailable(
            f"int4 cannot run on this CPU: layer {name} maps {inputs} to {outputs}, and "
            f"the 4-bit kernel here maps multiples of {CPU_INPUTS} to multiples of {CPU_OUTPUTS}. Choose int8."
        )
