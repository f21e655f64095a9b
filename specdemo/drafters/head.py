"""An EAGLE-3 head as drafter: one small decoder layer that reads the target's own hidden states.

Row j of the head stands for the token at position j + 1: it sees that token's embedding and a feature of position j,
the target's hidden states where the target has run, else the head's own output, and says what comes at j + 2
(Li et al. 2025, arXiv 2503.01840). Chains, not trees. Knows no files: weights come in as tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specdemo.decoding.drafter import Draft, Draw, Pruned
from specdemo.decoding.kv import KVCache
from specdemo.decoding.linear import Linear
from specdemo.decoding.norm import rms_norm
from specdemo.decoding.runner import PREFILL_CHUNK, on_device


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """What a head's configuration says; names as the speculators EAGLE-3 layout has them.

    aux_layers: indices of the target's decoder layers whose outputs are read. norm_before_residual: the residual is
    the normed feature. norm_output: the normed output, not the raw one, is the next feature.
    """

    hidden_size: int
    heads: int
    key_heads: int
    head_dim: int
    eps: float
    aux_layers: tuple[int, ...]
    vocab_size: int
    max_length: int
    norm_before_residual: bool = False
    norm_output: bool = False


@dataclass(slots=True)
class HeadLayer:
    """One decoder layer. The first reads [normed embedding, normed feature] of width 2d; hidden_norm is its own.

    qkv: to (heads + 2 key_heads) * head_dim from 2d or d; gate_up: to 2 * intermediate; q/k norms where the
    architecture has them.
    """

    input_norm: Tensor
    post_norm: Tensor
    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear
    hidden_norm: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None


@dataclass(slots=True)
class HeadWeights:
    """embed: [vocab, d] (the target's where the head has none). fc: to d from len(aux) * width. lm_head: to draft ids.

    target_ids: [draft vocab], the target's id of each draft token. fc_norms: none, one over all, or one a layer read.
    cos, sin: [max positions, head_dim], the rotary tables.
    """

    embed: Tensor
    fc: Linear
    layers: list[HeadLayer]
    norm: Tensor
    lm_head: Linear
    target_ids: Tensor
    cos: Tensor
    sin: Tensor
    fc_norms: tuple[Tensor, ...] = ()


AttendLayer = Callable[[int, HeadLayer, Tensor], Tensor]
"""attend(index, layer, normed rows) -> what the rows see [n, heads * head_dim]; keys and values are its own."""


class Head:
    """What a head computes of rows, whoever keeps their keys and values."""

    def __init__(self, config: HeadConfig, weights: HeadWeights):
        self.config = config
        self.aux_layers = config.aux_layers
        self.max_length = config.max_length
        self.among = Pruned(weights.target_ids, config.vocab_size)
        self._weights = weights

    def _read(self, hidden: Tensor) -> Tensor:
        """Features [n, d] from the target's hidden states [n, len(aux) * width]."""
        w = self._weights
        hidden = hidden.to(w.norm.dtype)
        if w.fc_norms:
            chunks = hidden.chunk(len(w.fc_norms), dim=-1)
            hidden = torch.cat([self._norm(c, n) for c, n in zip(chunks, w.fc_norms, strict=True)], dim=-1)
        return w.fc(hidden)

    def _through_layers(self, ids: Tensor, feature: Tensor, attend: AttendLayer) -> Tensor:
        """What the rows that follow ids [n] with features [n, d] take as their features [n, d]."""
        config, w = self.config, self._weights
        first, *others = w.layers
        embedding = self._norm(F.embedding(ids, w.embed).to(w.norm.dtype), first.input_norm)
        normed = self._norm(feature, first.hidden_norm)
        residual = normed if config.norm_before_residual else feature
        x = self._layer(0, torch.cat([embedding, normed], dim=-1), residual, attend)
        for i, layer in enumerate(others, start=1):
            x = self._layer(i, self._norm(x, layer.input_norm), x, attend)
        return self._norm(x, w.norm) if config.norm_output else x

    def _head(self, feature: Tensor) -> Tensor:
        """Logits [draft vocab] of the one row of a feature [1, d]."""
        return self._logits_of(feature)[0]

    def _logits_of(self, feature: Tensor) -> Tensor:
        """Logits [n, draft vocab] of rows of features [n, d]."""
        w = self._weights
        return w.lm_head(feature if self.config.norm_output else self._norm(feature, w.norm))

    def _layer(self, index: int, x: Tensor, residual: Tensor, attend: AttendLayer) -> Tensor:
        layer = self._weights.layers[index]
        x = layer.o.add(attend(index, layer, x), residual)
        gate, up = layer.gate_up(self._norm(x, layer.post_norm)).chunk(2, dim=-1)
        return layer.down.add(F.silu(gate) * up, x)

    def _heads(self, layer: HeadLayer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v [heads, n, head_dim] of n rows, turned by cos and sin [n, head_dim]."""
        config = self.config
        sizes = [config.heads, config.key_heads, config.key_heads]
        q, k, v = layer.qkv(x).view(len(x), sum(sizes), config.head_dim).transpose(0, 1).split(sizes)
        if layer.q_norm is not None:
            q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
        return _rotated(q, cos, sin), _rotated(k, cos, sin), v

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight, self.config.eps)


class HeadDrafter(Head):
    """Drafts with a head. The target hands over the hidden states that its own passes computed; no second pass."""

    def __init__(self, config: HeadConfig, weights: HeadWeights):
        super().__init__(config, weights)
        self._kv = KVCache(len(weights.layers))
        self._feature = weights.embed  # [1, d] after the last committed row: the feature of the next one
        self._logits = weights.embed  # [draft vocab] of the last committed row: the next round's first draft
        self._committed = 0

    def twin(self) -> HeadDrafter:
        """Another one over the same weights, for another text."""
        return HeadDrafter(self.config, self._weights)

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """Run the prompt's rows from `keep` on: features of positions keep..n-1 with the tokens that follow them."""
        self._kv.begin(capacity, keep)
        following = torch.cat([prompt_ids[1:], prompt_ids.new_tensor([first])])[keep:]
        for start in range(0, len(following), PREFILL_CHUNK):
            end = start + PREFILL_CHUNK
            self._commit_rows(following[start:end], hidden[start:end])

    def held(self, ids: Tensor) -> int:
        """Row j saw token j + 1, so the rows held stand for one token more; drafted rows do not count."""
        return min(self._committed, self._kv.held(ids[1:])) + 1

    def forget(self) -> None:
        """Empty the head's cache."""
        self._kv.rewind(0)
        self._committed = 0

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """gamma tokens, or fewer where `draw` ends the chain.

        The first costs nothing here: its row was run when the last round was committed.
        """
        tokens: list[Tensor] = []
        qs: list[Tensor] = []
        logits, feature = self._logits, self._feature
        for i in range(gamma):
            drawn = draw(logits, tokens, self.among)
            if drawn is None:
                break
            token, q = drawn
            tokens.append(token)
            qs.append(q)
            if i + 1 == gamma or not draw.goes_on():
                break
            feature, logits = self._run(token[None], feature)
        return Draft.of(tokens, qs, self._weights.embed.device)

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """Forget the drafted rows and run the emitted tokens with the target's own hidden states in their place."""
        self._kv.rewind(self._committed)
        ids = on_device(tokens, self._weights.embed.device)
        self._commit_rows(ids, hidden[: accepted + 1])

    def _commit_rows(self, ids: Tensor, hidden: Tensor) -> None:
        self._feature, self._logits = self._run(ids, self._read(hidden))
        self._committed = self._kv.length

    def _run(self, ids: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """Append rows of ids [n] and features [n, d] to the cache; feature [1, d] and logits of the last."""
        feature = self._through_layers(ids, feature, self._attend)[-1:]
        self._kv.advance(ids)
        return feature, self._head(feature)

    def _attend(self, index: int, layer: HeadLayer, x: Tensor) -> Tensor:
        """Causal attention of n rows over the held ones and themselves: [n, heads * head_dim]."""
        w, n, start = self._weights, len(x), self._kv.length
        # a row's position is that of the token whose embedding it sees
        q, k, v = self._heads(layer, x, *(table[start + 1 : start + 1 + n] for table in (w.cos, w.sin)))
        k, v = self._kv.write(index, k[None], v[None])  # [1, key_heads, start + n, head_dim]
        mask = None
        if n > 1:
            mask = torch.ones(n, start + n, dtype=torch.bool, device=x.device).tril_(start)
        out = F.scaled_dot_product_attention(q[None], k, v, attn_mask=mask, enable_gqa=True)
        return out[0].transpose(0, 1).reshape(n, -1)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin
