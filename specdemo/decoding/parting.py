"""Where two lanes that should write the same text part, and whether rounding explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Runner, prefill
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Parting

# Logits of two runs of the same fp32 model differ by some 4e-6; bf16 keeps 8 bits, so 0.06 around a logit of 16.
NEAR_TIE = {torch.float32: 1e-4, torch.bfloat16: 0.25, torch.float16: 0.03}
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@torch.inference_mode()
def find_parting(
    runner: Runner, prompt_ids: Sequence[int], params: SamplingParams, baseline: Sequence[int], other: Sequence[int]
) -> Parting | None:
    """Compare two lanes' emitted ids; where they part, ask the target for the gap. Off every clock."""
    if list(baseline) == list(other):
        return None
    shorter = min(len(baseline), len(other))
    index = next((i for i in range(shorter) if baseline[i] != other[i]), shorter)
    if index == shorter:
        mine = baseline[index] if index < len(baseline) else None
        return Parting(index, mine, other[index] if mine is None else None, None, tie=False)
    before = torch.tensor([*prompt_ids, *baseline[:index]], device=runner.device)
    runner.begin(len(before))
    logits = prefill(runner, before).logits
    sampler = Sampler(params, runner.vocab_size, runner.device, before)
    pair = torch.tensor([baseline[index], other[index]], device=runner.device)
    score = sampler.scores(logits.float(), position=len(before))[0, pair]
    gap = abs((score[0] - score[1]).item())
    spacing = _spacing(logits[0, pair].abs().max().item(), logits.dtype) / (params.temperature or 1)
    tie = gap <= NEAR_TIE[logits.dtype]
    return Parting(index, baseline[index], other[index], gap, tie, NAMES[logits.dtype], spacing)


def _spacing(value: float, dtype: torch.dtype) -> float:
    """Between neighbouring numbers of this dtype at this size."""
    return torch.finfo(dtype).eps * 2.0 ** math.floor(math.log2(max(value, torch.finfo(dtype).tiny)))
