"""Train a head on a corpus: soft labels over the pruned vocabulary, several unrolled steps, checkpoints that resume.

The loss of each unrolled step holds the head's distribution against the target's own there; the figures are what
decoding will see: how often draft and target agree greedily, and how much their distributions overlap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specdemo.distill.head_model import TrainableHead, mlp_units
from specdemo.distill.hidden import Batch, Example, collate


def cross_entropy(p: Tensor, logits: Tensor) -> Tensor:
    """[N], in nats, of a draft's logits [N, V] under the target's p [N, V], both over the draft vocabulary."""
    return -(p * logits.log_softmax(-1)).sum(-1)


def negative_log_acceptance(p: Tensor, logits: Tensor) -> Tensor:
    """[N], in nats, arguments as `cross_entropy`: rejection accepts a token of the draft's q with sum(min(p, q)).

    Cross-entropy is least at the same q; a head too small to reach that is better asked for what decoding wants of it
    (Samarin et al. 2026, arXiv 2602.23881).
    """
    return -torch.minimum(p, logits.softmax(-1)).sum(-1).clamp(min=1e-6).log()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": cross_entropy,
    "acceptance": negative_log_acceptance,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a head is trained. tokens: in a batch, padding included. steps: optimiser steps in all, for the schedule.

    train_output: whether the output matrix learns, too; else it stays the target's own rows, which takes a quarter less
    time and cannot overfit. objective: one of LOSSES.
    """

    steps: int = 2000
    tokens: int = 1200
    unrolled: int = 3
    decay: float = 0.8  # weight of each further unrolled step
    learning_rate: float = 3e-3
    warmup: int = 50
    seed: int = 0
    train_output: bool = False
    objective: str = "cross-entropy"


@dataclass(frozen=True, slots=True)
class Progress:
    """After an optimiser step. loss: mean over the last steps, nats a token; seconds: since this run began."""

    step: int
    loss: float
    tokens: int
    seconds: float


class Trainer:
    """One training run; `checkpoint` holds everything that going on needs. from_head: `head` was trained before."""

    def __init__(
        self,
        head: TrainableHead,
        target: PreTrainedModel,
        draft_ids: Tensor,
        layers: Sequence[int],
        examples: Sequence[Example],
        recipe: Recipe,
        checkpoint: Path,
        from_head: bool = False,
    ):
        self.head, self.layers, self.recipe, self.checkpoint = head, tuple(layers), recipe, checkpoint
        self.draft_ids = draft_ids.to(target.device)
        self._target = target
        self._train = sorted((e for e in examples if not e.held_out), key=lambda e: len(e.ids))
        self._held_out = [e for e in examples if e.held_out]
        if not self._train:
            raise ValueError("The corpus has no rows to train on: run `distill synthesise` first.")
        self._width = head.shape.width
        self._embed = target.get_input_embeddings().weight.detach().float()
        output = target.get_output_embeddings().weight.detach().float()
        self._vocab_head = output
        self._draft_head = output[self.draft_ids]
        head.lm_head.requires_grad_(recipe.train_output)
        self._trained = [p for p in head.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self._trained, lr=recipe.learning_rate, betas=(0.9, 0.95))
        self.steps_for: dict[str, int] = {}  # each objective
        self.from_head = from_head
        self.mean_loss: float | None = None  # over the last steps, nats a token
        if checkpoint.exists():
            self._resume()

    @property
    def step(self) -> int:
        """Optimiser steps done."""
        return sum(self.steps_for.values())

    def _resume(self) -> None:
        state = read_checkpoint(self.checkpoint)
        if tuple(state["layers"]) != self.layers:
            raise ValueError(f"{self.checkpoint} reads layers {state['layers']}: give this run a folder of its own.")
        if not torch.equal(state["draft_ids"], self.draft_ids.cpu()):
            raise ValueError(
                f"{self.checkpoint} was trained with another draft vocabulary: give this run a folder of its own."
            )
        if mlp_units(state["head"]) != self.head.shape.intermediate:
            raise ValueError(
                f"{self.checkpoint} was trained with {mlp_units(state['head']):,} units in its MLP: ask for as "
                "many, or give this run a folder of its own."
            )
        self.head.load_state_dict(state["head"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.steps_for, self.from_head = state["steps_for"], state["from_head"]
        if state["recipe"]["objective"] == self.recipe.objective:  # else the losses are two
            self.mean_loss = state["loss"]

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        state = {
            "head": self.head.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "steps_for": self.steps_for,
            "from_head": self.from_head,
            "loss": self.mean_loss,
            "draft_ids": self.draft_ids.cpu(),
            "layers": self.layers,
            "recipe": asdict(self.recipe),
            "data": self._data(),
            "figures": self.figures(),
        }
        part = self.checkpoint.with_suffix(".part")
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, part)
        part.replace(self.checkpoint)

    def run(self) -> Iterator[Progress]:
        """Train to the recipe's end, from wherever the checkpoint stood."""
        began, seen = time.monotonic(), 0
        while self.step < self.recipe.steps:
            batch = collate(self._pick(self.step), self._width, self.recipe.unrolled + 1, self.draft_ids.device)
            for group in self.optimiser.param_groups:
                group["lr"] = self.recipe.learning_rate * self._schedule(self.step)
            loss = self.loss(batch)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
            self.optimiser.step()
            self.steps_for[self.recipe.objective] = self.steps_for.get(self.recipe.objective, 0) + 1
            seen += int(batch.count.sum())
            now = loss.item()
            self.mean_loss = now if self.mean_loss is None else 0.95 * self.mean_loss + 0.05 * now
            yield Progress(self.step, self.mean_loss, seen, time.monotonic() - began)

    def _schedule(self, step: int) -> float:
        """Linear warm-up, then half a cosine down to a twentieth."""
        if step < self.recipe.warmup:
            return (step + 1) / self.recipe.warmup
        done = (step - self.recipe.warmup) / max(1, self.recipe.steps - self.recipe.warmup)
        return 0.05 + 0.95 * (1 + math.cos(math.pi * min(1.0, done))) / 2

    def _pick(self, step: int) -> list[Example]:
        """Examples of a step: a matter of seed and step alone, so that a resumed run goes on as it would have."""
        random = np.random.default_rng((self.recipe.seed, step))
        # of like length, so that little is padding
        window = max(1, len(self._train) // 8)
        start = random.integers(0, len(self._train))
        chosen, longest = [], 0
        for offset in random.permutation(window):
            example = self._train[(start + offset) % len(self._train)]
            longest = max(longest, len(example.ids))
            if chosen and longest * (len(chosen) + 1) > self.recipe.tokens:
                break
            chosen.append(example)
        return chosen

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the unrolled steps, weighted by decay, of the recipe's loss, in nats a token."""
        total, weights = batch.last.new_zeros(()), 0.0
        loss = LOSSES[self.recipe.objective]
        labels = (self._last(batch) @ self._draft_head.T).softmax(-1)
        for step, logits, which in self._unroll(batch):
            weight = self.recipe.decay**step
            total = total + weight * loss(labels[which], logits).mean()
            weights += weight
        return total / weights

    def _last(self, batch: Batch) -> Tensor:
        """The target's last hidden state [N, width] before each of the N tokens that are to be predicted."""
        places = torch.arange(batch.rows.shape[1], device=batch.rows.device)
        which, row = (places < batch.count[:, None]).nonzero(as_tuple=True)
        return batch.last[which, batch.rows[which, row] + 1]

    def _unroll(self, batch: Batch) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Each unrolled step: the head's logits [M, draft vocab], and which [M] of the N tokens each predicts."""
        embeddings = F.embedding(batch.ids[:, 1:], self._embed)
        places = torch.arange(batch.rows.shape[1], device=batch.rows.device)
        starts = batch.count.cumsum(0) - batch.count
        features = self.head.unroll(batch.hidden, embeddings, batch.rows, self.recipe.unrolled)
        for step, feature in enumerate(features):
            kept = places < batch.count[:, None] - step
            yield step, self.head.logits(feature[kept]), (starts[:, None] + places + step)[kept]

    def _data(self) -> str:
        tokens = sum(len(e.ids) - e.answer for e in self._train)
        return f"{len(self._train):,} answers of the target to prompts made for this, {tokens:,} tokens"

    def figures(self) -> list[str]:
        """The held-out figures as lines to print."""
        if not self._held_out:
            return ["no rows are held out yet"]
        lines = []
        for name, values in self.evaluate().items():
            lines.append(f"{name}: " + ", ".join(f"{value:.3f}" for value in values))
        return lines

    @torch.inference_mode()
    def evaluate(self, limit: int = 200) -> dict[str, list[float]]:
        """On held-out rows, for each drafted position: greedy agreement and overlap at temperature 1.

        Both over the target's full vocabulary, given that all tokens before are the target's own; overlap is
        sum(min(p, q)): what rejection accepts. By kind under "kind/...": greedy agreement of the first position.
        """
        agree = np.zeros(self.recipe.unrolled)
        overlap = np.zeros(self.recipe.unrolled)
        counts = np.zeros(self.recipe.unrolled)
        kinds: dict[str, list[float]] = {}
        for example in self._held_out[:limit]:
            batch = collate([example], self._width, self.recipe.unrolled + 1, self.draft_ids.device)
            p_all = (self._last(batch) @ self._vocab_head.T).softmax(-1)
            for step, logits, which in self._unroll(batch):
                p, q = p_all[which], logits.softmax(-1)
                same = (self.draft_ids[q.argmax(-1)] == p.argmax(-1)).float()
                agree[step] += same.sum().item()
                overlap[step] += torch.minimum(p[:, self.draft_ids], q).sum().item()
                counts[step] += len(q)
                if step == 0:
                    kinds.setdefault(example.kind, []).extend(same.tolist())
        figures = {"agreement": (agree / counts).tolist(), "overlap": (overlap / counts).tolist()}
        return figures | {f"kind/{kind}": [float(np.mean(values))] for kind, values in sorted(kinds.items())}


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What `Trainer.save` wrote. Raises ValueError where there is none."""
    if not path.exists():
        raise ValueError(f"There is no checkpoint {path}: run `distill train` first.")
    return torch.load(path, weights_only=True, map_location="cpu")


def drafted_ids(
    checkpoint: Path,
    state: dict[str, Any] | None,
    examples: Sequence[Example],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    size: int,
) -> Tensor:
    """The draft vocabulary: the checkpoint's where there is one, so that training goes on over a corpus that grew.

    state: what `read_checkpoint` found in it, None where there is none. Raises ValueError where its vocabulary has
    another size.
    """
    vocab_size = model.get_input_embeddings().weight.shape[0]
    if state:
        ids = state["draft_ids"]
        if len(ids) != min(size, vocab_size):
            raise ValueError(
                f"{checkpoint} was trained with a draft vocabulary of {len(ids):,} tokens, not {size:,}: ask for as "
                "many, or give this run a folder of its own."
            )
        return ids
    return draft_vocabulary(examples, vocab_size, size, always=tokenizer.all_special_ids)


def draft_vocabulary(examples: Sequence[Example], vocab_size: int, size: int, always: Sequence[int]) -> Tensor:
    """The `size` tokens most frequent in the training answers, `always` among them, as sorted target ids."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for example in examples:
        if not example.held_out:
            np.add.at(counts, example.ids[example.answer :].astype(np.int64), 1)
    counts[[i for i in always if i < vocab_size]] = counts.max() + 1
    ids = np.argsort(-counts, kind="stable")[: min(size, vocab_size)]
    return torch.from_numpy(np.sort(ids))
