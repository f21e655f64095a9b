"""How is one weight matrix multiplied, the same for 1 row as for 17? Packed for oneDNN on CPUs, plain elsewhere.

The packed kernel reads the weights once whatever the number of rows, and a row's bits do not depend on the rows
beside it (measured; promise.py asks again on every machine). Plain `F.linear` holds neither on a CPU.
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


Linear = Plain | Packed


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN packs and multiplies weights of this dtype natively on this device."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:  # without the instructions it would be emulated
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype == torch.float32


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """The fastest product for this weight [out, in] where it lies."""
    return (Packed if packs(weight.device, weight.dtype) else Plain)(weight, bias)
