"""A smaller causal language model as drafter: proposes token by token with a KV cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding.drafter import Draft, Draw
from specdemo.decoding.runner import Runner, prefill


class ModelDrafter:
    """Wraps a Runner. Ids committed but not yet run through the draft model are fed at the next proposal."""

    aux_layers: tuple[int, ...] = ()

    def __init__(self, runner: Runner):
        self.runner = runner
        self.max_length = runner.max_length
        self._pending: list[int] = []
        self._drafted = 0

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int) -> None:
        """Run the prompt; the first token waits for the first proposal."""
        self.runner.begin(capacity)
        prefill(self.runner, prompt_ids)
        self._pending, self._drafted = [first], 0

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """Exactly gamma tokens, each drawn from the draft model's own distribution; nothing waits for the device."""
        ids = torch.tensor(self._pending, device=self.runner.device)
        tokens: list[Tensor] = []
        qs: list[Tensor] = []
        for _ in range(gamma):
            logits = self.runner.forward(ids, rows=1).logits[0]
            token, q = draw(logits, tokens)
            tokens.append(token)
            qs.append(q)
            ids = token[None]
        self._drafted = gamma
        return Draft(torch.stack(tokens), torch.stack(qs))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """Keep the accepted prefix in the cache; the last drafted token was never run, so it waits if accepted."""
        if not self._drafted:  # a round that drafted nothing ran nothing here
            self._pending = [*self._pending, *tokens]
            return
        kept = min(accepted, self._drafted - 1)
        self.runner.rewind(self.runner.length - (self._drafted - 1) + kept)
        self._pending = list(tokens[kept:])
        self._drafted = 0
