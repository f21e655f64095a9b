"""A smaller causal language model as drafter: proposes token by token with a KV cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdemo.decoding.drafter import Draft, Draw
from specdemo.decoding.runner import Runner, on_device, prefill


class ModelDrafter:
    """Wraps a Runner. Ids committed but not yet run through the draft model are fed at the next proposal."""

    aux_layers: tuple[int, ...] = ()

    def __init__(self, runner: Runner):
        self.runner = runner
        self.max_length = runner.max_length
        self._pending: list[int] = []
        self._ran = 0  # drafted tokens that stand in the cache

    def twin(self) -> ModelDrafter:
        """Another one over the same weights, for another text."""
        return ModelDrafter(self.runner.twin())

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """Run the prompt; the first token waits for the first proposal."""
        self.runner.begin(capacity, keep)
        prefill(self.runner, prompt_ids[keep:])
        self._pending, self._ran = [first], 0

    def held(self, ids: Tensor) -> int:
        """As many as the draft model's cache holds."""
        return self.runner.held(ids)

    def forget(self) -> None:
        """Empty the draft model's cache."""
        self.runner.rewind(0)

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """gamma tokens, or fewer where `draw` ends the chain, each from the draft model's own distribution."""
        ids = on_device(self._pending, self.runner.device)
        tokens: list[Tensor] = []
        qs: list[Tensor] = []
        self._pending = []
        for self._ran in range(gamma):
            drawn = draw(self.runner.forward(ids, rows=1).logits[0], tokens)
            if drawn is None:
                break
            token, q = drawn
            tokens.append(token)
            qs.append(q)
            if self._ran + 1 < gamma and not draw.goes_on():
                break
            ids = token[None]
        return Draft.of(tokens, qs, self.runner.device)

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """Keep the accepted prefix in the cache; what was never run waits for the next proposal."""
        kept = min(accepted, self._ran)
        self.runner.rewind(self.runner.length - self._ran + kept)
        self._pending = [*self._pending, *tokens[kept:]]
        self._ran = 0
