"""Where do keys and values live? In tensors made once, written in place; rewinding is a smaller number.

Rows past `length` may hold anything finite: whoever reads them masks them. Knows no model: a layer's shape is learnt
from the first keys and values that it is given.
"""

from __future__ import annotations

from torch import Tensor

BLOCK = 32  # capacities are multiples of this, so that a reader may round its key length up


def round_up(length: int) -> int:
    """The smallest multiple of BLOCK that holds `length` tokens."""
    return -(-length // BLOCK) * BLOCK


class LayerKV:
    """Keys and values of one layer. keys: [1, kv_heads, capacity, key_dim]; values likewise with their own width."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def reserve(self, capacity: int, keys: Tensor, values: Tensor) -> None:
        """Make room for `capacity` tokens shaped as keys and values [1, kv_heads, any, dim] are."""
        # Zeros, not empty: a masked row weighs 0, but 0 * nan is nan. Both are made before either is held: where memory
        # is short, what is held must still be whole.
        rooms = (t.new_zeros(1, t.shape[1], capacity, t.shape[3]) for t in (keys, values))
        self.keys, self.values = rooms

    def grow(self, capacity: int, keep: int) -> None:
        """Make room for `capacity` tokens and take the first `keep` along."""
        keys, values = self.keys, self.values
        if not keep:
            self.keys = self.values = None  # made again, at the new size, by the next write
            return
        self.reserve(capacity, keys, values)
        self.keys[:, :, :keep] = keys[:, :, :keep]
        self.values[:, :, :keep] = values[:, :, :keep]


class KVCache:
    """Keys and values of every layer over one sequence, with one length for all of them.

    A forward writes its n rows into every layer with `write`, then calls `advance(ids)` once: until then the cache
    holds what it held, so a forward that fails half way leaves no trace. It knows which token each row stands for, so
    that a later prompt can be told how much of it is held already.
    """

    def __init__(self, layers: int) -> None:
        self.layers = [LayerKV() for _ in range(layers)]
        self.capacity = 0
        self.length = 0
        self._ids: Tensor | None = None  # [capacity], of the rows

    def begin(self, capacity: int, keep: int = 0) -> None:
        """Forget all but the first `keep` tokens and make room for `capacity`; the room is kept if it suffices."""
        self.rewind(keep)
        if capacity <= self.capacity:
            return
        room = round_up(capacity)
        ids = None
        if keep:
            ids = self._ids.new_zeros(room)
            ids[:keep] = self._ids[:keep]
        for layer in self.layers:
            layer.grow(room, keep)
        self._ids, self.capacity = ids, room

    def clear(self) -> None:
        """Hold nothing, and give the room back."""
        self.rewind(0)
        for layer in self.layers:
            layer.keys = layer.values = None
        self._ids, self.capacity = None, 0

    def write(self, index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put n new rows [1, kv_heads, n, dim] behind the held ones; views of all length + n rows of that layer."""
        layer, start, stop = self.layers[index], self.length, self.length + keys.shape[2]
        if stop > self.capacity:
            raise ValueError(f"the KV cache has room for {self.capacity} tokens, and {stop} were to be held")
        if layer.keys is None:
            layer.reserve(self.capacity, keys, values)
        layer.keys[:, :, start:stop] = keys
        layer.values[:, :, start:stop] = values
        return layer.keys[:, :, :stop], layer.values[:, :, :stop]

    def advance(self, ids: Tensor) -> None:
        """The rows just written in every layer, one for each of ids [n], are held from now on."""
        if self._ids is None:
            self._ids = ids.new_zeros(self.capacity)
        self._ids[self.length : self.length + len(ids)] = ids
        self.length += len(ids)

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that are held."""
        n = min(self.length, len(ids))
        if not n:
            return 0
        differ = (self._ids[:n] != ids[:n]).nonzero()
        return int(differ[0]) if len(differ) else n

    def rewind(self, length: int) -> None:
        """Hold only the first `length` tokens. Nothing is copied."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind to {length} tokens: {self.length} are held")
        self.length = length
