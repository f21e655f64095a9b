"""Which runner fits a loaded model? The lean one where it knows the model and agrees with it, else the general one."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakSet

import torch
from transformers import PreTrainedModel

from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.runner import Runner
from specdemo.models.errors import first_line
from specdemo.models.general_runner import PLAIN, GeneralRunner, RunnerRefused
from specdemo.models.lean import SelfCheck, lean_runner, release, self_check, why_not
from specdemo.models.memory import is_out_of_memory
from specdemo.models.precision import LAYERS

__all__ = ["GeneralRunner", "LeanRunner", "RunnerRefused", "make_runner"]

# Weights are packed and checked once for a model, however many runners it gets.
_packed: WeakKeyDictionary[PreTrainedModel, LeanRunner] = WeakKeyDictionary()
_checks: WeakKeyDictionary[PreTrainedModel, SelfCheck] = WeakKeyDictionary()
_known_right: WeakSet[PreTrainedModel] = WeakSet()  # by the general runner

CHECKED, KEPT, WRONG = 28, 6, 5  # tokens of the general runner's check: all, those before a rewind, those taken back


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
        return _general(model, vocab_size, reason, check)
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
            return _general(model, vocab_size, reason, check)
    if consume:
        release(model)
    return runner.twin(vocab_size)


def _general(model: PreTrainedModel, vocab_size: int | None, notice: str, check: bool) -> GeneralRunner:
    runner = GeneralRunner(model, vocab_size, notice)
    if check and model not in _known_right:
        _refuse_wrong(runner)
        _known_right.add(model)
    return runner


@torch.inference_mode()
def _refuse_wrong(runner: GeneralRunner) -> None:
    """Raise RunnerRefused where steps over the cache, after a rewind, are not what one forward without a cache gives.

    Encoders that see what comes later, and layers whose state no rewind puts back, are found so whatever they are
    called. Halves and quantised layers round, and routers take other experts at near-ties: most rows count there.
    """
    model, kind = runner.model, runner.config.model_type
    count = min(CHECKED, runner.max_length)
    if count <= KEPT + WRONG:
        return
    ids = torch.randint(runner.vocab_size, (count,), generator=torch.Generator().manual_seed(0)).to(runner.device)
    try:
        expected = model(ids[None], use_cache=False).logits[0, KEPT:, : runner.vocab_size].float()
        runner.begin(count)
        runner.forward(ids[:KEPT], 0)
        runner.forward((ids[KEPT : KEPT + WRONG] + 1) % runner.vocab_size, WRONG)
        runner.rewind(KEPT)
        rows = [
            runner.forward(chunk, len(chunk)).logits.float()
            for chunk in (*ids[KEPT : KEPT + 4].split(1), ids[KEPT + 4 :])
        ]
        runner.rewind(0)
    except Exception as error:  # a stranger's modelling code may raise anything
        if is_out_of_memory(error):
            raise
        raise RunnerRefused(
            f"{kind} models cannot be run over a cache of ours ({first_line(error)}).", PLAIN
        ) from error
    apart = (torch.cat(rows) - expected).norm(dim=-1) / expected.norm(dim=-1)
    rounds = model.dtype != torch.float32 or any(type(m).__name__ in LAYERS.values() for m in model.modules())
    if (apart.median() > 0.1) if rounds else (apart.max() > 0.01):
        raise RunnerRefused(
            f"{kind} models compute something else over a cache than without one, so speculative decoding would be "
            "wrong with them.",
            PLAIN,
        )
