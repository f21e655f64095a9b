"""Has everything that a race runs on a GPU run before? Kernels are loaded and chosen at their first call, which would
otherwise fall into the first timed rounds.
"""

from __future__ import annotations

import torch

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Runner
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule

PROMPT, TOKENS, GAMMA = 16, 12, 4
WAYS = (
    (SamplingParams(), Rule.SHARED_NOISE),
    *((SamplingParams(temperature=1.0, top_p=0.9, top_k=50), rule) for rule in Rule),
)


def any_prompt(target: Runner) -> list[int]:
    """PROMPT tokens of no sense, always the same."""
    return torch.randint(target.vocab_size, (PROMPT,), generator=torch.Generator().manual_seed(0)).tolist()


def warm_up(target: Runner, twin: Runner, drafter: Drafter) -> None:
    """Both lanes write a few tokens by every rule; all three are empty afterwards."""
    context = min(target.max_length, drafter.max_length)
    if context < PROMPT + TOKENS + GAMMA:
        return
    prompt = any_prompt(target)

    def ending() -> Ending:
        return Ending(Limits(TOKENS, context), PROMPT)

    for params, rule in WAYS:
        for _ in autoregressive(target, prompt, params, ending()):
            pass
        for _ in speculative(twin, drafter, prompt, params, rule, GAMMA, ending()):
            pass
    for runner in (target, twin):
        runner.rewind(0)
    drafter.forget()
