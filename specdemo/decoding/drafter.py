"""What the speculative decoder asks of a drafter: begin on a prompt, propose γ tokens, learn what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Pruned:
    """A drafter's vocabulary that is a part of its target's. ids: [n] int64, the target's id of each of its tokens.

    size: of the target's vocabulary. What is left out has probability 0.
    """

    ids: Tensor
    size: int
    short_ids: Tensor = field(init=False)  # as int32, which noise is a function of

    def __post_init__(self) -> None:
        object.__setattr__(self, "short_ids", self.ids.int())

    def whole(self, logits: Tensor) -> Tensor:
        """Logits [size] over the target's vocabulary from those [n] over this one."""
        full = logits.new_full((self.size,), float("-inf"), dtype=torch.float32)
        full[self.ids] = logits.float()
        return full

    def spread(self, q: Tensor) -> Tensor:
        """Probabilities [size] over the target's vocabulary from those [n] over this one."""
        return q.new_zeros(self.size).index_copy_(0, self.ids, q)


class Draw(Protocol):
    """How a drafter turns what it has into its next token. The decoder owns it, so that temperature, truncation and
    noise are the same on both sides; it waits for the device only where a policy looks at the logits.
    """

    def __call__(
        self, logits: Tensor, drafted: Sequence[Tensor], among: Pruned | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """(id [], q) from logits [vocab], or [n] among a pruned one, after the round's tokens drafted before it.

        None ends the chain there (see Policy.unsure). q is the full distribution [vocab] under rejection and block,
        else only the probability [] of the id.
        """

    def goes_on(self) -> bool:
        """Whether a drafter should run one draft step more for this chain (see Policy.goes_on)."""

    def pays(self, alpha: float) -> bool:
        """Whether a drafter that copies should copy one token more (see Policy.pays)."""


@dataclass(slots=True)
class Draft:
    """A chain of proposed tokens. ids: [k] int64, k <= γ. q: what `draw` gave, stacked; None for a one-hot q."""

    ids: Tensor
    q: Tensor | None = None

    @classmethod
    def of(cls, tokens: Sequence[Tensor], qs: Sequence[Tensor], device: torch.device) -> Draft:
        """What `draw` gave, token by token; perhaps nothing."""
        if not tokens:
            return cls(torch.empty(0, dtype=torch.long, device=device))
        return cls(torch.stack(list(tokens)), torch.stack(list(qs)))


class Drafter(Protocol):
    """A proposer over one sequence. aux_layers: target layers whose outputs it reads (empty for most).

    max_length: tokens that its own context may hold.
    """

    aux_layers: tuple[int, ...]
    max_length: int

    def twin(self) -> Drafter:
        """Another one over the same weights, for another text."""

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """Start on a prompt [n]; `first` is the target's token after it, `capacity` all tokens that may come to stand.

        keep: so many of the first tokens (0, or fewer than `held`) need not be run again. hidden: [n - keep,
        len(aux_layers) * width], of the tokens behind them, where aux_layers are named.
        """

    def held(self, ids: Tensor) -> int:
        """Of a prompt's ids [n], so many of the first need not be given to it again."""

    def forget(self) -> None:
        """Hold nothing of any text."""

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """At most gamma (>= 1) tokens that should follow everything committed so far."""

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """The round's emitted tokens: `accepted` of the last draft, then the target's own; forget the refused ones.

        hidden: [k + 1, len(aux_layers) * width], the verify pass's rows (k drafted); rows past `accepted` are void.
        """
