"""How a test asks a drafter for tokens without a lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from specdemo.decoding.drafter import Pruned


@dataclass(frozen=True, slots=True)
class FreeDraw:
    """Draws by a function, as often as there is room."""

    draw: Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, Tensor] | None]

    def __call__(
        self, logits: Tensor, drafted: Sequence[Tensor], among: Pruned | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """As the function does, which is given logits over the whole vocabulary."""
        return self.draw(logits if among is None else among.whole(logits), drafted)

    def goes_on(self) -> bool:
        """Always."""
        return True

    def pays(self, alpha: float) -> bool:
        """Always."""
        return True
