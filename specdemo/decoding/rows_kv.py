"""Where do keys and values of many sequences live? Side by side, each as long as it is; one leaves, another moves in.

Columns past a row's length may hold anything finite: whoever reads them masks them. Lengths are the reader's business.
"""

from __future__ import annotations

import torch
from torch import Tensor


class RowsKV:
    """One layer's keys and values [rows, kv_heads, columns, dim]; its shape is learnt from the first ones given."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def write(self, first: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values [b, n, kv_heads, dim] of rows first .. first + b into columns places [b, n]."""
        if self.keys is None:
            # Zeros, not empty: a masked column weighs 0, but 0 * nan is nan.
            self.keys = keys.new_zeros(self.rows, keys.shape[2], self.columns, keys.shape[3])
            self.values = values.new_zeros(self.rows, values.shape[2], self.columns, values.shape[3])
        rows = torch.arange(first, first + len(places), device=places.device)[:, None]
        self.keys[rows, :, places] = keys
        self.values[rows, :, places] = values

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of one row over another."""
        for held in (self.keys, self.values):
            held[target, :, :length] = held[source, :, :length]
