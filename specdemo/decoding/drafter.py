"""What the speculative decoder asks of a drafter: begin on a prompt, propose γ tokens, learn what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Draw = Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, Tensor]]
"""draw(logits [vocab], drafted before it in this round) -> (id [], q): how a drafter turns logits into its next token.

q is the full distribution [vocab] under rejection and block, else only the probability [] of the id. The decoder owns
it, so that temperature, truncation and noise are the same on both sides; it never waits for the device.
"""


@dataclass(slots=True)
class Draft:
    """A chain of proposed tokens. ids: [k] int64, k <= γ. q: what `draw` gave, stacked; None for a one-hot q."""

    ids: Tensor
    q: Tensor | None = None


class Drafter(Protocol):
    """A proposer over one sequence. aux_layers: target layers whose outputs it reads (empty for most).

    max_length: tokens that its own context may hold.
    """

    aux_layers: tuple[int, ...]
    max_length: int

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int) -> None:
        """Start on a prompt [n]; `first` is the target's token after it, `capacity` all tokens that may come to stand.

        hidden: [n, len(aux_layers) * width] where aux_layers are named.
        """

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """At most gamma (>= 1) tokens that should follow everything committed so far."""

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """The round's emitted tokens: `accepted` of the last draft, then the target's own; forget the refused ones.

        hidden: [k + 1, len(aux_layers) * width], the verify pass's rows (k drafted); rows past `accepted` are void.
        """
