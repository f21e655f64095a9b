"""Freed memory is kept for the next step: what glibc gives back to the kernel unasked stays mapped."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from specdemo.models.allocator import keep_freed_memory

# What one step's operations over a vocabulary make and drop; prints pages newly filled, in tensors a step.
FAULTS = """
import resource, sys
import torch
from specdemo.models.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
logits = torch.ones(6, 49152)
def step():
    p = (logits / 2).softmax(-1)
    return ((p / (torch.ones_like(p) * 2)).long() > 0).sum()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(30):  # until the heap is as large as a step needs it
    step()
before = faults()
for _ in range(20):
    step()
print((faults() - before) * resource.getpagesize() / logits.nbytes / 20)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="another C library than glibc")
def test_tensors_that_come_and_go_take_no_new_pages() -> None:
    # As glibc begins, and stays where it happens not to see a large block freed: every one has pages of its own.
    own_pages = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}

    def faulted(how: str) -> float:
        command = [sys.executable, "-c", FAULTS, how]
        made = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | own_pages)
        return float(made.stdout)

    assert faulted("kept") < 0.1
    assert faulted("given back") > 0.5
