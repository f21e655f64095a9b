"""How is one weight matrix multiplied, the same for 1 row as for 17? Packed on CPUs, plain elsewhere.

The packed kernel reads the weights once whatever the number of rows, and a row's bits do not depend on the rows
beside it (measured; promise.py asks again on every machine). Plain `F.linear` holds neither on a CPU. Where a CPU has
no instructions for halves, fp16 weights are still half the bytes: FBGEMM widens them as it multiplies.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

PACK_ROWS = 32  # oneDNN lays weights out for about this many rows; laid out for 1, bits and cost change at 2


class Plain:
    """x @ weight.T + bias over a plain weight [out, in]."""

    __slots__ = ("bias", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """x: [n, in]; returns [n, out]."""
        return F.linear(x, self.weight, self.bias)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """residual + self(x), both [n, out]."""
        return F.linear(x, self.weight, self.bias).add_(residual)


class Packed:
    """The same over a weight that oneDNN laid out once; the plain tensor need not be kept."""

    __slots__ = ("bias", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACK_ROWS)
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """x: [n, in]; returns [n, out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """residual + self(x), both [n, out]; the sum is fused into the product."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")


class Halved:
    """The same over fp16 weights on a CPU: FBGEMM widens them in registers, so that rows and sums are fp32.

    Its kernels for 1 and for 2 rows sum in another order than those for 3 to 6, of which more rows are made up, and 7
    are 5 and 2 (measured on AVX2, and asked again by promise.py): forwards of SHAPES rows have the same bits.
    """

    SHAPES = (3, 4, 5, 6, *range(8, 20))

    __slots__ = ("weight",)

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        wide = None if bias is None else bias.float()
        self.weight = torch.ops.quantized.linear_prepack_fp16(weight.float().contiguous(), wide)

    def __call__(self, x: Tensor) -> Tensor:
        """x: [n, in] in fp32; returns [n, out]."""
        return torch.ops.quantized.linear_dynamic_fp16(x.contiguous(), self.weight)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """residual + self(x), both [n, out]."""
        return self(x).add_(residual)


Linear = Plain | Packed | Halved


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN packs and multiplies weights of this dtype natively on this device."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:  # without the instructions it would be emulated
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype == torch.float32


def halves(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether weights of this dtype are multiplied with rows that are fp32."""
    return device.type == "cpu" and dtype == torch.float16 and "fbgemm" in torch.backends.quantized.supported_engines


def row_dtype(weight: Tensor) -> torch.dtype:
    """The dtype of the rows that a weight like this is multiplied with, and of everything that is no product."""
    return torch.float32 if halves(weight.device, weight.dtype) else weight.dtype


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """The fastest product for this weight [out, in] where it lies."""
    if halves(weight.device, weight.dtype):
        return Halved(weight, bias)
    return (Packed if packs(weight.device, weight.dtype) else Plain)(weight, bias)
