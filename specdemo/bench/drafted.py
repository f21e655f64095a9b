"""Did both sides draft the same tokens? Ours are in the Steps; transformers' are recorded where it asks for them.

Recording is a run of its own, off the clock. A ratio of two speculative decoders means something only if what they
drafted is equal, round by round; where it is not, the draft model itself says whether rounding explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.generation.candidate_generator import AssistedCandidateGenerator

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from specdemo.decoding.runner import Runner
from specdemo.decoding.steps import Step

Rounds = dict[int, tuple[int, ...]]
"""What each round drafted, by the number of new tokens that stood before it."""


def drafted_by_lane(steps: Sequence[Step]) -> Rounds:
    """Rounds of one of our lanes; those that drafted nothing are left out."""
    rounds, emitted = {}, 0
    for step in steps:
        if step.drafted:
            rounds[emitted] = tuple(drafted.id for drafted in step.drafted)
        emitted += len(step.tokens)
    return rounds


@contextmanager
def drafted_by_generate(prompt_length: int) -> Iterator[Rounds]:
    """Within: the rounds of a `generate(assistant_model=...)`, keyed as ours are, filled while it runs."""
    rounds: Rounds = {}
    original = AssistedCandidateGenerator.get_candidates

    def recording(self: AssistedCandidateGenerator, input_ids: Tensor, **kwargs: object) -> tuple[Tensor, Tensor]:
        candidates, logits = original(self, input_ids, **kwargs)
        drafted = tuple(candidates[0, input_ids.shape[1] :].tolist())
        if drafted:
            rounds[input_ids.shape[1] - prompt_length] = drafted
        return candidates, logits

    AssistedCandidateGenerator.get_candidates = recording
    try:
        yield rounds
    finally:
        AssistedCandidateGenerator.get_candidates = original


@dataclass(frozen=True, slots=True)
class Agreement:
    """equal: rounds that drafted the same. ties: that rounding explains. faults: sentences about those it does not."""

    equal: int
    ties: int
    faults: tuple[str, ...]


def compare_drafts(
    ours: Rounds, theirs: Rounds, draft: Runner, prompt: Sequence[int], text: Sequence[int]
) -> Agreement:
    """Compare round by round. text: the new tokens, on which both sides agree.

    Once a round differs by a tie, the two may stand at different places: from there on only rounds that began at the
    same place can be compared.
    """
    equal = ties = 0
    faults = []
    for position in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(position), theirs.get(position)
        if mine == other:
            equal += 1
        elif mine is None or other is None:
            if not ties:
                faults.append(f"after {position} tokens only {'generate' if mine is None else 'our lane'} drafted")
        elif _tie(draft, [*prompt, *text[:position]], mine, other):
            ties += 1
        else:
            faults.append(f"after {position} tokens our lane drafted {list(mine)} and generate {list(other)}")
    return Agreement(equal, ties, tuple(faults))


@torch.inference_mode()
def _tie(draft: Runner, context: Sequence[int], mine: Sequence[int], other: Sequence[int]) -> bool:
    parting = find_parting(draft, context, SamplingParams(), mine, other)
    return parting is not None and parting.tie
