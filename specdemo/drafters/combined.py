"""Lookup where the context has a good match, else a model: one drafter made of two, which stay in step.

What is a good match is learnt from the text itself. In every round the lookup is held against the tokens that were
emitted, whoever proposed them, so that its record grows also while the model drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from torch import Tensor

from specdemo.decoding.drafter import Draft, Drafter, Draw
from specdemo.drafters.ngram import NgramDrafter

# What is believed before a text has shown better: the share of judged tokens that hold, by the tokens that matched
# (counted up to eight) and for a model. The lookup's are the embedded target's answers', the mean of greedy and
# temperature 1. Beliefs weigh as so many judged tokens.
MATCHED = {1: 0.25, 2: 0.52, 3: 0.62, 4: 0.70, 5: 0.74, 6: 0.77, 7: 0.78, 8: 0.90}
MODEL = 0.5
WEIGHT = 16


@dataclass(slots=True)
class Record:
    """Judged tokens and those that held: an α (see theory.py), from a belief on."""

    held: float
    judged: float

    @classmethod
    def believed(cls, alpha: float) -> Record:
        """Nothing seen yet."""
        return cls(alpha * WEIGHT, WEIGHT)

    @property
    def alpha(self) -> float:
        """Held / judged."""
        return self.held / self.judged

    def add(self, held: int, of: int) -> None:
        """A round of `of` tokens, the first `held` of which held; the one behind them, if any, was refused."""
        self.held += held
        self.judged += min(held + 1, of)


class CombinedDrafter:
    """Proposes what the lookup copies where matches that long have held as often as the model's drafts, else the
    model's chain. A copied token costs nothing, so a tie goes to the lookup.

    The choice depends on earlier rounds alone: under every rule the output keeps the target's law.
    """

    def __init__(self, lookup: NgramDrafter, model: Drafter):
        self.lookup = lookup
        self.model = model
        self.aux_layers = model.aux_layers
        self.max_length = min(lookup.max_length, model.max_length)
        self._copied: list[int] = []  # what the lookup has for this round, proposed or not
        self._matched = 0
        self._drafted = 0  # by the model, this round
        self._unlearn()

    def twin(self) -> CombinedDrafter:
        """Another one over the same weights, for another text."""
        return CombinedDrafter(self.lookup.twin(), self.model.twin())

    def _unlearn(self) -> None:
        self._of_matches = {length: Record.believed(alpha) for length, alpha in MATCHED.items()}
        self._of_model = Record.believed(MODEL)

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """Both begin; what an earlier text taught is forgotten."""
        self._unlearn()
        self._copied, self._drafted = [], 0
        self.lookup.begin(prompt_ids, first, hidden, capacity, keep)
        self.model.begin(prompt_ids, first, hidden, capacity, keep)

    def held(self, ids: Tensor) -> int:
        """As many as the model holds: the lookup needs none."""
        return self.model.held(ids)

    def forget(self) -> None:
        """Both."""
        self.lookup.forget()
        self.model.forget()

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """The lookup's tokens (a one-hot q) or the model's."""
        self._copied, self._matched = self.lookup.look_up(gamma, counted=max(MATCHED))
        alpha = self._of_matches[self._matched].alpha if self._copied else 0.0
        if self._copied and alpha >= self._of_model.alpha:
            return self.lookup.draft_of(list(takewhile(lambda token: draw.pays(alpha), self._copied)))
        draft = self.model.propose(gamma, draw)
        self._drafted = len(draft.ids)
        return draft

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """Both take the emitted tokens; the records take the round."""
        if self._copied:
            # what was emitted judges no more of the copy than its own length
            pairs = list(zip(self._copied, tokens, strict=False))
            held = next((i for i, (copied, token) in enumerate(pairs) if copied != token), len(pairs))
            self._of_matches[self._matched].add(held, len(pairs))
        if self._drafted:
            self._of_model.add(accepted, self._drafted)
        self._copied, self._drafted = [], 0
        self.lookup.commit(tokens, accepted, hidden)
        self.model.commit(tokens, accepted, hidden)
