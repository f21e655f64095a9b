"""The probe says bit-identical only of a runner whose rows really do not depend on the rows beside them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specdemo.decoding.promise import CONTEXTS, Promise, probe
from specdemo.decoding.runner import Output


class Stub:
    """A runner whose logits depend on the ids held, plus `fault(length before, n)` on the last row."""

    vocab_size, max_length, device = 16, 4096, torch.device("cpu")

    def __init__(self, fault=lambda length, n: 0.0) -> None:
        self.fault, self.ids, self.stale = fault, [], 0.0

    @property
    def length(self) -> int:
        return len(self.ids)

    def begin(self, capacity: int, keep: int = 0) -> None:
        self.ids, self.capacity = [], capacity

    def rewind(self, length: int) -> None:
        assert length <= self.length
        del self.ids[length:]

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        start, n = self.length, len(ids)
        self.ids += ids.tolist()
        assert self.length <= self.capacity
        logits = torch.stack([torch.full((16,), float(sum(self.ids[: start + i + 1]))) for i in range(n)])
        logits += self.fault(start, n)
        return Output(logits[n - rows :])


def test_rows_that_are_always_the_same_are_promised() -> None:
    result = probe(Stub(), gamma=16)
    assert result.promise is Promise.BIT_IDENTICAL
    assert result.differing == 0 and result.compared >= 30
    assert result.contexts == CONTEXTS and result.rows == (2, 5, 9, 17)


@pytest.mark.parametrize(
    "fault",
    [
        lambda length, n: 1e-3 * (n == 1),  # a kernel of its own for one row
        lambda length, n: 1e-3 * (n == 17),  # and for the longest verification
        lambda length, n: 1e-3 * (length <= 256 < length + n),  # where a block of keys ends
    ],
    ids=["one row", "many rows", "a boundary"],
)
def test_one_bit_in_one_place_breaks_the_promise(fault: object) -> None:
    result = probe(Stub(fault), gamma=16)
    assert result.promise is Promise.EQUAL_UP_TO_ROUNDING
    assert result.differing > 0 and 0 < result.largest < 0.01
    assert "equal up to rounding" in str(result)


def test_it_asks_about_the_draft_length_in_use() -> None:
    assert probe(Stub(), gamma=3).rows == (2, 4)
    assert probe(Stub(lambda length, n: 1e-3 * (n == 9)), gamma=3).promise is Promise.BIT_IDENTICAL


def test_a_short_context_is_probed_within_its_length() -> None:
    stub = Stub()
    stub.max_length = 64
    assert probe(stub).contexts == (5, 30)
    assert stub.capacity <= 64 and stub.length == 0


@pytest.mark.parametrize("length", [8, 20, 50])
def test_a_short_context_is_probed_as_far_as_it_goes(length: int) -> None:
    runner = Stub()
    runner.max_length = length
    result = probe(runner, gamma=16)
    assert result.promise is Promise.BIT_IDENTICAL and result.compared > 0
    assert runner.capacity <= length
