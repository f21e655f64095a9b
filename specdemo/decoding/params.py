"""How is a token to be sampled? Plain numbers, apart from what does it, so that a replay need not import torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How both lanes sample. temperature 0 is greedy; top_k 0, top_p 1, min_p 0, repetition_penalty 1 switch off.

    draft_temperature: the drafter's own temperature; None takes `temperature`.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    draft_temperature: float | None = None

    @property
    def drafting(self) -> float:
        """The drafter's temperature."""
        return self.temperature if self.draft_temperature is None else self.draft_temperature

    @property
    def truncates(self) -> bool:
        """Whether unlikely tokens are cut off."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0
