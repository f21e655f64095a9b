"""Which runner fits a loaded model? The general one, for now."""

from __future__ import annotations

from transformers import PreTrainedModel

from specdemo.decoding.runner import Runner
from specdemo.models.general_runner import GeneralRunner


def make_runner(model: PreTrainedModel, vocab_size: int | None = None) -> Runner:
    """The fastest runner that is right for this model; `.notice` says why where it is the general one."""
    return GeneralRunner(model, vocab_size)
