"""How many threads a test's tensors use. Tiny models run fastest on one, and leave the others to whoever else runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Within: torch computes with n threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Every test of a module that imports this runs on one thread."""
    with threads(1):
        yield
