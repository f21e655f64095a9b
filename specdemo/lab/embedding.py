"""How near are two texts in meaning, as a model of embeddings has it? The cosine between the means of their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdemo.lab.experiment import LabRefused

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Embedder:
    """A text model and its tokenizer, on the CPU."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    @classmethod
    def load(cls, name: str) -> Embedder:
        """From a folder or a hub id; raises LabRefused."""
        from transformers import AutoModel, AutoTokenizer

        try:
            return cls(AutoModel.from_pretrained(name).float().eval(), AutoTokenizer.from_pretrained(name))
        except (OSError, ValueError) as error:
            said = str(error).partition("\n")[0]
            raise LabRefused(f"{name} cannot be loaded as a model of embeddings: {said}") from error

    @torch.inference_mode()
    def mean_state(self, text: str) -> Tensor:
        """Mean of the last hidden states [width]; zeros for a text without a token."""
        ids = self.tokenizer(text, return_tensors="pt", truncation=True).input_ids.long()
        if not ids.numel():
            return torch.zeros(self.model.config.hidden_size)
        longest = getattr(self.model.config, "max_position_embeddings", None) or ids.shape[1]
        return self.model(ids[:, :longest]).last_hidden_state[0].mean(0)

    def similarity(self, one: str, other: str) -> float:
        """Cosine, -1 to 1; two empty texts are alike."""
        if one == other:
            return 1.0
        return torch.cosine_similarity(self.mean_state(one), self.mean_state(other), dim=0).item()
