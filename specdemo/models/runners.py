"""Which runner fits a loaded model? The lean one where it knows the model and agrees with it, else the general one."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.runner import Runner
from specdemo.models.general_runner import GeneralRunner, RunnerRefused
from specdemo.models.lean import SelfCheck, lean_runner, release, self_check, why_not

__all__ = ["GeneralRunner", "LeanRunner", "RunnerRefused", "make_runner"]

# Weights are packed and checked once for a model, however many runners it gets.
_packed: WeakKeyDictionary[PreTrainedModel, LeanRunner] = WeakKeyDictionary()
_checks: WeakKeyDictionary[PreTrainedModel, SelfCheck] = WeakKeyDictionary()


def make_runner(
    model: PreTrainedModel, vocab_size: int | None = None, consume: bool = False, check: bool = True
) -> Runner:
    """The fastest runner that is right for this model, with a cache of its own; weights are shared between runners.

    consume: the model will not be run by itself again, so its own matrices may go once they are packed. check: False
    where only its time is of interest. `.notice` says in a sentence why it is the general one, where it is. Raises
    RunnerRefused where no runner is right.
    """
    reason = why_not(model)
    if reason:
        return GeneralRunner(model, vocab_size, notice=reason)
    if model not in _packed:
        _packed[model] = lean_runner(model)
    runner = _packed[model]
    if check:
        if model not in _checks:
            _checks[model] = self_check(runner, model)
        if not _checks[model].passed(runner.dtype):
            reason = (
                f"The lean forward failed its self-check on this model ({_checks[model]}), so the general one runs."
            )
            return GeneralRunner(model, vocab_size, notice=reason)
    if consume:
        release(model)
    return runner.twin(vocab_size)
