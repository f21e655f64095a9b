"""A head that can be trained: the EAGLE-3 layer over batches, unrolled as it will be when it drafts.

Training-time test (Li et al. 2025, arXiv 2503.01840): from its second step on, a row's feature is the head's own output
of the step before, and it sees the committed rows before it and its own drafted ones, as in decoding. Parameters carry
the names of the speculators layout, so a state dict is a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a one-layer head. width: the target's hidden size, which is the head's too; aux: target layers read."""

    width: int
    intermediate: int
    heads: int
    key_heads: int
    head_dim: int
    aux: int
    draft_vocab: int
    eps: float


class _Attention(nn.Module):
    def __init__(self, shape: HeadShape):
        super().__init__()
        self.q_proj = nn.Linear(2 * shape.width, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(2 * shape.width, shape.key_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(2 * shape.width, shape.key_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.width, bias=False)


class _MLP(nn.Module):
    def __init__(self, shape: HeadShape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class _Layer(nn.Module):
    def __init__(self, shape: HeadShape):
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(shape.width, shape.eps)
        self.hidden_norm = LlamaRMSNorm(shape.width, shape.eps)
        self.post_attention_layernorm = LlamaRMSNorm(shape.width, shape.eps)
        self.self_attn = _Attention(shape)
        self.mlp = _MLP(shape)


class TrainableHead(nn.Module):
    """One EAGLE-3 layer with its projection of the target's hidden states and a head over the pruned vocabulary."""

    def __init__(self, shape: HeadShape, rotary: LlamaRotaryEmbedding):
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.aux * shape.width, shape.width, bias=False)
        self.layers = nn.ModuleList([_Layer(shape)])
        self.norm = LlamaRMSNorm(shape.width, shape.eps)
        self.lm_head = nn.Linear(shape.width, shape.draft_vocab, bias=False)
        self._rotary = [rotary]  # in a list, so that it is no part of the checkpoint

    def unroll(self, hidden: Tensor, embeddings: Tensor, rows: Tensor, steps: int) -> Iterator[Tensor]:
        """Features [B, A, width] of each of `steps` drafted tokens, given hidden [B, T, aux * width].

        embeddings [B, T + steps, width]: entry t is that of the token at position t + 1. rows [B, A]: which of the T
        rows draft; the others are only seen. Step s of row t predicts the token at position t + 2 + s.
        """
        layer, length = self.layers[0], hidden.shape[1]
        features = self.fc(hidden)
        committed = torch.cat([layer.input_layernorm(embeddings[:, :length]), layer.hidden_norm(features)], dim=-1)
        everywhere = torch.arange(1, 1 + length, device=hidden.device)[None]
        past = [self._keys_and_values(committed, everywhere)]
        unseen = torch.arange(length, device=hidden.device) > rows[:, None, :, None]  # [B, 1, A, T]
        feature = _gather(features, rows)
        for step in range(steps):
            embedding = _gather(embeddings, rows + step)
            x = torch.cat([layer.input_layernorm(embedding), layer.hidden_norm(feature)], dim=-1)
            if step:
                past.append(self._keys_and_values(x, rows + 1 + step))
            x = feature + layer.self_attn.o_proj(self._attend(x, rows + 1 + step, past, unseen))
            feature = x + layer.mlp(layer.post_attention_layernorm(x))
            yield feature

    def logits(self, feature: Tensor) -> Tensor:
        """Over the draft vocabulary, from the features that `unroll` gives."""
        return self.lm_head(self.norm(feature))

    def _keys_and_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Of rows x [B, T, 2 * width]: both [B, heads, T, head_dim]."""
        shape, attention = self.shape, self.layers[0].self_attn
        k = _rotate(self._split(attention.k_proj(x), shape.key_heads), *self._tables(x, positions))
        v = self._split(attention.v_proj(x), shape.key_heads)
        group = shape.heads // shape.key_heads
        return k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)

    def _attend(self, x: Tensor, positions: Tensor, past: list[tuple[Tensor, Tensor]], unseen: Tensor) -> Tensor:
        """[B, A, heads * head_dim]: each row over the committed rows up to itself and over its own drafts."""
        shape = self.shape
        q = _rotate(self._split(self.layers[0].self_attn.q_proj(x), shape.heads), *self._tables(x, positions))
        committed, *drafted = past
        scores = [(q @ committed[0].transpose(-1, -2)).masked_fill(unseen, float("-inf"))]
        scores += [(q * keys).sum(-1, keepdim=True) for keys, _ in drafted]
        weights = torch.cat(scores, dim=-1).mul(shape.head_dim**-0.5).softmax(-1)
        length = committed[0].shape[2]
        out = weights[..., :length] @ committed[1]
        for i, (_, values) in enumerate(drafted):
            out = out + weights[..., length + i : length + i + 1] * values
        return out.transpose(1, 2).flatten(2)

    def _tables(self, x: Tensor, positions: Tensor) -> list[Tensor]:
        """Cosines and sines for these positions [B or 1, T], to be broadcast over heads."""
        return [table[:, None] for table in self._rotary[0](x, positions)]

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.shape.head_dim)).transpose(1, 2)


def _gather(x: Tensor, rows: Tensor) -> Tensor:
    """Rows [B, A] of x [B, T, width]."""
    return x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1]))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def new_head(target: PreTrainedModel, draft_ids: Tensor, aux: int, intermediate: int | None = None) -> TrainableHead:
    """A fresh head for a target, started from what the target knows: its last layer, its last norm, its own head.

    The layer starts by reading the feature as the target's last layer would, and the feature starts as the last of the
    hidden states read; only the embedding's half of the attention starts at zero. aux: hidden states read.
    intermediate: units of its MLP, as many as the target's by default. Raises ValueError for none.
    """
    if intermediate is not None and intermediate < 1:
        raise ValueError(f"A head's MLP has at least one unit, not {intermediate}.")
    config = target.config.get_text_config(decoder=True)
    width, heads = config.hidden_size, config.num_attention_heads
    shape = HeadShape(
        width=width,
        intermediate=intermediate or config.intermediate_size,
        heads=heads,
        key_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or width // heads,
        aux=aux,
        draft_vocab=len(draft_ids),
        eps=getattr(config, "rms_norm_eps", 1e-6),
    )
    head = TrainableHead(shape, LlamaRotaryEmbedding(config)).float()
    with torch.no_grad():
        head.fc.weight.mul_(0.1)[:, -width:] += torch.eye(width)
        head.lm_head.weight.copy_(target.get_output_embeddings().weight[draft_ids.to(target.device)])
        _start_from_last_layer(head, target)
    return head.to(target.device)


GATE, DOWN = "layers.0.mlp.gate_proj.weight", "layers.0.mlp.down_proj.weight"


def mlp_units(weights: dict[str, Tensor]) -> int:
    """Units of the MLP of a head's state dict."""
    return weights[GATE].shape[0]


def widened(weights: dict[str, Tensor], head: TrainableHead) -> dict[str, Tensor]:
    """A smaller head's state dict as one of `head`, which has as many units in its MLP or more.

    The new units read what a fresh head's would and are written nowhere yet (their columns of down_proj are zero), so
    that `head` says what the smaller one said (Chen et al. 2016, arXiv 1511.05641). Raises ValueError for fewer units.
    """
    had, has = mlp_units(weights), head.shape.intermediate
    if has < had:
        raise ValueError(f"The head that training goes on from has {had:,} units in its MLP: ask for as many or more.")
    grown = dict(weights)
    for name, fresh in head.state_dict().items():
        fresh = fresh.to(weights[name].device)
        if name == DOWN:
            grown[name] = torch.cat([weights[name], torch.zeros_like(fresh[:, had:])], dim=1)
        elif ".mlp." in name:
            grown[name] = torch.cat([weights[name], fresh[had:]])
    return grown


def _start_from_last_layer(head: TrainableHead, target: PreTrainedModel) -> None:
    """Copy what has the same name and shape; of q, k and v the half that reads the feature."""
    decoder = target.get_decoder()
    theirs = {f"layers.0.{name}": t for name, t in decoder.layers[-1].named_parameters()}
    theirs |= {f"norm.{name}": t for name, t in decoder.norm.named_parameters()}
    for name, weight in head.named_parameters():
        known = theirs.get(name.replace("hidden_norm", "input_layernorm"))
        if known is None:
            continue
        if known.shape == weight.shape:
            weight.copy_(known)
        elif known.dim() == 2 and known.shape[0] == weight.shape[0] and 2 * known.shape[1] == weight.shape[1]:
            weight[:, : known.shape[1]] = 0
            weight[:, known.shape[1] :] = known
