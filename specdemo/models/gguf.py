"""Read a GGUF file: metadata, and the tensors of the three kinds the embedded model has, dequantised to float32.

The format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The caller has verified the
file's hash: this reader trusts what it reads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCK = 32  # weights that share one scale


class GGUF:
    """metadata: what the file says of itself. tensors(): name and float32 values, in the file's order."""

    def __init__(self, data: bytes | memoryview | np.memmap) -> None:
        self._data = memoryview(data)
        self._at = 0
        magic, _version, tensor_count, entry_count = self._unpack("<4sIQQ")
        if magic != b"GGUF":
            raise ValueError("not a GGUF file")
        self.metadata: dict[str, Any] = {self._string(): self._value() for _ in range(entry_count)}
        self._infos = [self._tensor_info() for _ in range(tensor_count)]
        alignment = self.metadata.get("general.alignment", 32)
        self._data_start = -(-self._at // alignment) * alignment

    def __len__(self) -> int:
        return len(self._infos)

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every tensor, in the row-major shape that torch expects."""
        for name, shape, kind, offset in self._infos:
            blocks = self._data[self._data_start + offset :]
            yield name, dequantise(blocks, kind, int(np.prod(shape))).reshape(shape)

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _string(self) -> str:
        (length,) = self._unpack("<Q")
        self._at += length
        return str(self._data[self._at - length : self._at], "utf-8")

    def _value(self, kind: int | None = None) -> Any:
        if kind is None:
            (kind,) = self._unpack("<I")
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            inner, length = self._unpack("<IQ")
            return [self._value(inner) for _ in range(length)]
        return self._unpack(SCALARS[kind])[0]

    def _tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        (dimensions,) = self._unpack("<I")
        shape = self._unpack(f"<{dimensions}Q")[::-1]  # GGUF names the fastest dimension first
        kind, offset = self._unpack("<IQ")
        return name, shape, kind, offset


def dequantise(data: memoryview, kind: int, count: int) -> np.ndarray:
    """The first `count` weights of data as float32 [count], by ggml's own arithmetic, bit for bit."""
    if kind == F32:
        return np.frombuffer(data, "<f4", count)
    if kind == Q8_0:  # weight = scale * q
        blocks = np.frombuffer(data, [("scale", "<f2"), ("q", "i1", BLOCK)], count // BLOCK)
        return (blocks["scale"].astype(np.float32)[:, None] * blocks["q"]).reshape(-1)
    if kind == Q4_1:  # weight = scale * q + least; a byte's low half is weight i, its high half weight i + 16
        blocks = np.frombuffer(data, [("scale", "<f2"), ("least", "<f2"), ("q", "u1", BLOCK // 2)], count // BLOCK)
        weights = np.empty((len(blocks), BLOCK), np.float32)
        weights[:, : BLOCK // 2] = blocks["q"] & 15
        weights[:, BLOCK // 2 :] = blocks["q"] >> 4
        weights *= blocks["scale"].astype(np.float32)[:, None]
        weights += blocks["least"].astype(np.float32)[:, None]
        return weights.reshape(-1)
    raise ValueError(f"GGUF tensor type {kind} is not one of F32, Q4_1, Q8_0")
