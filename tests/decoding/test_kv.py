"""What the preallocated cache promises: rows written in place, views not copies, rewinding by a number."""

from __future__ import annotations

import pytest
import torch

from specdemo.decoding.kv import BLOCK, KVCache, round_up
from tests.held import held


def rows(n: int, heads: int = 2, dim: int = 3) -> torch.Tensor:
    """n distinguishable rows [1, heads, n, dim]."""
    return torch.arange(heads * n * dim, dtype=torch.float32).view(1, heads, n, dim) + 1


def test_rows_are_held_in_order_and_read_back_as_views() -> None:
    cache = KVCache(1)
    cache.begin(10)
    first, second = rows(3), rows(2) + 100
    cache.write(0, first, -first)
    cache.advance(torch.arange(3))
    keys, values = cache.write(0, second, -second)
    assert torch.equal(keys, torch.cat((first, second), dim=2))
    assert torch.equal(values, -keys)
    assert keys.untyped_storage().data_ptr() == cache.layers[0].keys.untyped_storage().data_ptr()


def test_rows_count_only_once_all_layers_have_advanced() -> None:
    cache = KVCache(2)
    cache.begin(10)
    cache.write(0, rows(3), rows(3))
    assert cache.length == 0
    cache.write(1, rows(3), rows(3))
    cache.advance(torch.arange(3))
    assert cache.length == 3


def test_after_a_rewind_new_rows_stand_where_the_old_ones_stood() -> None:
    cache = KVCache(1)
    cache.begin(10)
    cache.write(0, rows(5), rows(5))
    cache.advance(torch.arange(5))
    before = cache.layers[0].keys.data_ptr()
    cache.rewind(2)
    cache.write(0, rows(1) + 50, rows(1) + 60)
    cache.advance(torch.arange(1))
    keys, values = held(cache, 0)
    assert torch.equal(keys, torch.cat((rows(5)[0, :, :2], rows(1)[0] + 50), dim=1))
    assert torch.equal(values[:, 2:], rows(1)[0] + 60)
    assert cache.layers[0].keys.data_ptr() == before


def test_a_new_run_keeps_the_memory_if_it_suffices_and_grows_it_if_not() -> None:
    cache = KVCache(1)
    cache.begin(40)
    cache.write(0, rows(1), rows(1))
    place = cache.layers[0].keys.data_ptr()
    cache.advance(torch.arange(1))
    cache.begin(64)
    cache.write(0, rows(1), rows(1))
    assert (cache.layers[0].keys.data_ptr(), cache.length) == (place, 0)
    assert cache.layers[0].keys.shape[2] == 64
    cache.begin(65)
    cache.write(0, rows(1), rows(1))
    assert cache.layers[0].keys.shape[2] == 96


def test_more_rows_than_there_is_room_for_are_refused_with_both_numbers() -> None:
    cache = KVCache(1)
    cache.begin(BLOCK)
    cache.write(0, rows(30), rows(30))
    cache.advance(torch.arange(30))
    with pytest.raises(ValueError, match="room for 32 tokens, and 33"):
        cache.write(0, rows(3), rows(3))
    assert cache.length == 30


@pytest.mark.parametrize("length", [-1, 4])
def test_a_rewind_forward_or_below_nothing_is_refused(length: int) -> None:
    cache = KVCache(1)
    cache.begin(10)
    cache.write(0, rows(3), rows(3))
    cache.advance(torch.arange(3))
    with pytest.raises(ValueError, match="cannot rewind"):
        cache.rewind(length)


def test_capacities_are_whole_blocks() -> None:
    assert [round_up(n) for n in (0, 1, 32, 33)] == [0, 32, 32, 64]


def test_rows_not_written_yet_are_finite() -> None:
    """A masked key weighs 0, and 0 * nan would be nan."""
    cache = KVCache(1)
    cache.begin(10)
    cache.write(0, rows(1), rows(1))
    assert cache.layers[0].keys.isfinite().all() and cache.layers[0].values.isfinite().all()
