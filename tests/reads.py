"""Where would the host have to wait for a device? Counted on any device, whatever it costs there.

Every way to bring a number from a tensor to the host counts: item, tolist and cpu, an index that is a tensor of no
dimensions, and operations whose result has a shape that depends on the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::_unique2"}


class Reads(TorchDispatchMode):
    """count: reads so far."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func._schema.name in WAITING
        return func(*args, **(kwargs or {}))


@contextmanager
def counted_reads() -> Iterator[Reads]:
    """Within: every read of this thread is counted."""
    reads = Reads()
    with reads, _patched(reads, "tolist"), _patched(reads, "cpu"):
        yield reads


@contextmanager
def _patched(reads: Reads, name: str) -> Iterator[None]:
    original = getattr(torch.Tensor, name)

    def counting(self: torch.Tensor, *args: object, **kwargs: object) -> object:
        before = reads.count
        result = original(self, *args, **kwargs)
        reads.count = before + 1  # once, however it is done
        return result

    setattr(torch.Tensor, name, counting)
    try:
        yield
    finally:
        setattr(torch.Tensor, name, original)
