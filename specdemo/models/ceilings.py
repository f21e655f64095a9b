"""How fast can this device go at best? Copies of memory and a square matrix product, measured, in a second or less.

A plain step reads every weight once, so bytes a second bound it; a prefill multiplies, so products a second bound it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from specdemo.decoding.clock import settle

COPIED = {"cpu": 1 << 27, "cuda": 1 << 30}  # bytes of a copy, well past every cache
SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices
TURNS, SECONDS = 5, 0.4  # so many, or as many as take so long, and one before them that does not count


@dataclass(frozen=True, slots=True)
class Ceilings:
    """bytes_per_second: read and written by a copy, both counted. flops_per_second: of a matrix product."""

    bytes_per_second: float
    flops_per_second: float


def measure_ceilings(device: torch.device, dtype: torch.dtype = torch.float32) -> Ceilings:
    """Both ceilings; the matrices of the product are of this dtype."""
    return Ceilings(copy_bandwidth(device), matmul_rate(device, dtype))


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second that a copy from memory to memory moves: what it reads and what it writes."""
    source = torch.zeros(COPIED[device.type], dtype=torch.uint8, device=device)
    into = torch.empty_like(source)
    return 2 * source.nbytes / _least_seconds(lambda: into.copy_(source), device)


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a square matrix product: 2 n³ each."""
    side = SIDE[device.type]
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    return 2 * side**3 / _least_seconds(lambda: a @ b, device)


@torch.inference_mode()
def _least_seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of the fastest turn: whatever else runs here only ever makes one slower."""
    taken: list[float] = []
    while len(taken) < 2 or (len(taken) <= TURNS and sum(taken) < SECONDS):
        begun = time.perf_counter()
        work()
        settle(device)
        taken.append(time.perf_counter() - begun)
    return min(taken[1:])
