"""What does a round of each draft length take on this machine? The speculative lane tells, as the pair is loaded.

Fewer bits of a draft save memory and seldom time: the measurement stands beside the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdemo.decoding.drafter import Draft, Drafter, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Policy
from specdemo.decoding.round_costs import Calibration
from specdemo.decoding.runner import Runner
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.models.warm_up import PROMPT, any_prompt

ORDER, TIMES = (0, 4, 2, 8, 1, 6, 3, 5), 3
LENGTHS = (*ORDER, MAX_GAMMA, *ORDER * (TIMES - 1))  # drafted by the rounds
SECONDS = 0.8  # after which no round begins, however few have been


class InTurn(Policy):
    """One length after the other."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = iter(lengths)

    def next(self) -> int:
        return next(self._lengths)


class AnyTokens:
    """Drafts what comes to hand, at no cost: what stands for a lookup, which finds nothing in a text of no sense."""

    aux_layers: tuple[int, ...] = ()

    def __init__(self, max_length: int, device: torch.device) -> None:
        self.max_length, self._device = max_length, device

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """On any prompt."""

    def forget(self) -> None:
        """There is nothing."""

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """The first token of the vocabulary, so many times."""
        return Draft(torch.zeros(gamma, dtype=torch.long, device=self._device))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        """There is nothing."""


def calibrate(target: Runner, drafter: Drafter | None) -> Calibration | None:
    """The rounds of a greedy run; target and drafter are empty afterwards. drafter: None is a lookup.

    None where the context is too short for any.
    """
    drafter = AnyTokens(target.max_length, target.device) if drafter is None else drafter
    context = min(target.max_length, drafter.max_length)
    if context <= PROMPT:
        return None
    ending = Ending(Limits(sum(LENGTHS) + len(LENGTHS) + 1, context), PROMPT)
    prompt = any_prompt(target)
    lane = speculative(target, drafter, prompt, SamplingParams(), Rule.SHARED_NOISE, InTurn(LENGTHS), ending)
    steps: list[Step] = []
    next(lane)  # the prompt's own
    for _, step in zip(LENGTHS, lane, strict=False):
        steps.append(step)
        if len(steps) > 1 and sum(one.seconds for one in steps) > SECONDS:  # less tells nothing
            break
    lane.close()
    target.rewind(0)
    drafter.forget()
    whole = [step for step in steps if len(step.drafted) == step.gamma and not step.stop]
    return Calibration.of(whole)
