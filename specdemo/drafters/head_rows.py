"""An EAGLE-3 head that drafts for many sequences at once: one pass of the head for a token of every row.

Each row's chain is the one that head.HeadDrafter would draft for it alone, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding.drafter import Draw
from specdemo.decoding.rows_forward import attend, place
from specdemo.decoding.rows_kv import RowsKV
from specdemo.decoding.runner import PREFILL_CHUNK
from specdemo.drafters.head import Head, HeadLayer


class HeadRows(Head):
    """A head over many sequences (see decoding/batched.RowsDrafter)."""

    @classmethod
    def of(cls, head: Head) -> HeadRows:
        """Over the same weights."""
        return cls(head.config, head._weights)

    def begin(self, rows: int, columns: int) -> None:
        """Room for so many sequences of so many tokens."""
        self._layers = [RowsKV(rows, columns) for _ in self._weights.layers]
        self._lengths = [0] * rows  # committed rows of each sequence
        # behind each one's last committed row, as in HeadDrafter
        self._feature = self._weights.norm.new_zeros(rows, self.config.hidden_size)
        self._logits = self._weights.norm.new_zeros(rows, len(self._weights.target_ids))

    def admit(self, row: int, prompt: Tensor, first: int, hidden: Tensor | None, columns: int) -> None:
        """Run a prompt's rows."""
        following = torch.cat([prompt[1:], prompt.new_tensor([first])])
        self._lengths[row] = 0
        for start in range(0, len(following), PREFILL_CHUNK):
            ids, states = following[start : start + PREFILL_CHUNK], hidden[start : start + PREFILL_CHUNK]
            self._commit_rows(row, ids[None], states[None], [len(ids)])

    def propose(self, wanted: Sequence[int], draws: Sequence[Draw]) -> list[list[int]]:
        """A chain for each row; rows that want no more run along until the longest is done."""
        rows = len(wanted)
        chains: list[list[Tensor]] = [[] for _ in wanted]
        going = [n > 0 for n in wanted]
        feature, logits = self._feature[:rows], self._logits[:rows]
        for i in range(max(wanted, default=0)):
            for row in range(rows):
                if going[row]:
                    drawn = draws[row](logits[row], chains[row], self.among)
                    if drawn is not None:
                        chains[row].append(drawn[0])
                    going[row] = drawn is not None and i + 1 < wanted[row] and draws[row].goes_on()
            if not any(going):
                break
            nothing = self._weights.target_ids[0]
            ids = torch.stack([chain[-1] if chain else nothing for chain in chains])
            feature = self._run(0, ids[:, None], feature[:, None], [n + i for n in self._lengths[:rows]])[:, 0]
            logits = self._logits_of(feature)
        return [[int(token) for token in torch.stack(chain).tolist()] if chain else [] for chain in chains]

    def commit(self, emitted: Sequence[Sequence[int]], hidden: Tensor | None) -> None:
        """All rows at once, the emitted tokens padded to the most that any row has."""
        longest = max(map(len, emitted))
        ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in emitted], device=hidden.device)
        self._commit_rows(0, ids, hidden[:, :longest], [len(ids) for ids in emitted])

    def move(self, source: int, target: int) -> None:
        """One row's state over another's."""
        for kv in self._layers:
            kv.move(source, target, self._lengths[source])
        self._lengths[target] = self._lengths[source]
        for held in (self._feature, self._logits):
            held[target] = held[source]

    def _commit_rows(self, first: int, ids: Tensor, hidden: Tensor, counts: Sequence[int]) -> None:
        """Rows [b, n] of sequences from `first` on, of which so many of each count."""
        b, n = ids.shape
        until = first + b
        feature = self._read(hidden.reshape(b * n, -1)).view(b, n, -1)
        feature = self._run(first, ids, feature, self._lengths[first:until])
        last = torch.tensor(counts, device=ids.device) - 1
        self._feature[first:until] = feature[torch.arange(b, device=ids.device), last]
        self._logits[first:until] = self._logits_of(self._feature[first:until])
        self._lengths[first:until] = [
            held + count for held, count in zip(self._lengths[first:until], counts, strict=True)
        ]

    def _run(self, first: int, ids: Tensor, feature: Tensor, starts: Sequence[int]) -> Tensor:
        """Write rows of ids [b, n] and features [b, n, d] behind the starts [b]; the features that follow them."""
        config, w, (b, n) = self.config, self._weights, ids.shape
        group = config.heads // config.key_heads
        here = place(first, starts, n, group, {None}, w.norm, self._layers[0].columns)
        at = (here.columns.flatten() + 1).clamp(max=len(w.cos) - 1)  # padding may lie past the tables
        cos, sin = w.cos[at], w.sin[at]

        def see(index: int, layer: HeadLayer, x: Tensor) -> Tensor:
            q, k, v = (some.transpose(0, 1).unflatten(0, (b, n)) for some in self._heads(layer, x, cos, sin))
            kv = self._layers[index]
            kv.write(first, here.columns, k, v)
            return attend(q.unflatten(2, (config.key_heads, group)), kv, here, None, None)

        return self._through_layers(ids.flatten(), feature.reshape(b * n, -1), see).view(b, n, -1)
