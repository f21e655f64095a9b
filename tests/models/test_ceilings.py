"""A device's ceilings are measured by what really moves and multiplies."""

from __future__ import annotations

import pytest
import torch

from specdemo.models import ceilings
from specdemo.models.ceilings import measure_ceilings

CPU = torch.device("cpu")


def test_both_ceilings_are_rates_of_real_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ceilings.COPIED, "cpu", 1 << 20)
    monkeypatch.setitem(ceilings.SIDE, "cpu", 64)
    measured = measure_ceilings(CPU, torch.float32)
    assert measured.bytes_per_second > 0 and measured.flops_per_second > 0


def test_a_rate_is_the_work_over_the_seconds_of_the_fastest_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "_least_seconds", lambda work, device: 0.5)
    monkeypatch.setitem(ceilings.COPIED, "cpu", 1000)
    monkeypatch.setitem(ceilings.SIDE, "cpu", 10)
    assert ceilings.copy_bandwidth(CPU) == 4000  # a thousand bytes read and as many written, in half a second
    assert ceilings.matmul_rate(CPU, torch.float32) == 4000  # 2 * 10 ** 3 operations
