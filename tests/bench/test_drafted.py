"""What both sides drafted is compared round by round, and a difference is really found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import GenerationConfig

from specdemo.bench.drafted import compare_drafts, drafted_by_generate, drafted_by_lane
from specdemo.bench.sides import run_generate
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.drafters.model import ModelDrafter
from specdemo.models.general_runner import GeneralRunner
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_llama

PROMPT = [5, 9, 3, 5, 9, 7]
NEW, GAMMA = 40, 4


@pytest.fixture(scope="module")
def models() -> tuple[torch.nn.Module, torch.nn.Module]:
    target = tiny_llama()
    draft = noised(target, 0.03)
    target.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=None)
    draft.generation_config = GenerationConfig(
        eos_token_id=None,
        pad_token_id=None,
        num_assistant_tokens=GAMMA,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )
    return target, draft


@pytest.fixture(scope="module")
def steps(models: tuple) -> list[Step]:
    target, draft = models
    ending = Ending(Limits(NEW, 500), len(PROMPT))
    drafter = ModelDrafter(GeneralRunner(draft))
    return list(speculative(GeneralRunner(target), drafter, PROMPT, SamplingParams(), Rule.SHARED_NOISE, GAMMA, ending))


def text_of(steps: list[Step]) -> list[int]:
    return [token.id for step in steps for token in step.tokens]


def test_our_lane_and_assisted_generation_draft_the_same_tokens_in_the_same_rounds(
    models: tuple, steps: list[Step]
) -> None:
    target, draft = models
    ours, text = drafted_by_lane(steps), text_of(steps)
    with drafted_by_generate(len(PROMPT)) as theirs:
        sample = run_generate(target, (*PROMPT, text[0]), NEW - 1, assistant_model=draft)
    assert [text[0], *sample.ids] == text
    accepted = sum(step.accepted for step in steps)
    assert 0.2 < accepted / sum(map(len, ours.values())) < 0.95, "drafts are refused and accepted here"
    agreement = compare_drafts(ours, theirs, GeneralRunner(draft), PROMPT, text)
    assert (agreement.equal, agreement.ties, agreement.faults) == (len(ours), 0, ())


def test_one_changed_token_is_a_fault(models: tuple, steps: list[Step]) -> None:
    ours, text = drafted_by_lane(steps), text_of(steps)
    position, drafted = list(ours.items())[2]
    theirs = ours | {position: (*drafted[:-1], (drafted[-1] + 1) % 256)}
    agreement = compare_drafts(ours, theirs, GeneralRunner(models[1]), PROMPT, text)
    assert len(agreement.faults) == 1 and f"after {position} tokens" in agreement.faults[0]


def test_a_shorter_draft_and_a_missing_round_are_faults(models: tuple, steps: list[Step]) -> None:
    ours, text = drafted_by_lane(steps), text_of(steps)
    first, second, *_ = ours
    theirs = {position: drafted for position, drafted in ours.items() if position != second}
    theirs[first] = ours[first][:-1]
    assert len(compare_drafts(ours, theirs, GeneralRunner(models[1]), PROMPT, text).faults) == 2


def test_a_near_tie_of_the_draft_is_counted_and_excuses_what_follows(
    models: tuple, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdemo.bench import drafted as module

    real = module.find_parting
    monkeypatch.setattr(module, "find_parting", lambda *args: replace(real(*args), tie=True))
    ours, text = drafted_by_lane(steps), text_of(steps)
    first, second, *_ = ours
    theirs = {position: drafted for position, drafted in ours.items() if position != second}
    theirs[first] = (*ours[first][:-1], (ours[first][-1] + 1) % 256)
    agreement = compare_drafts(ours, theirs, GeneralRunner(models[1]), PROMPT, text)
    assert (agreement.ties, agreement.faults) == (1, ())


def test_recording_leaves_transformers_as_it_was() -> None:
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    before = AssistedCandidateGenerator.get_candidates
    with pytest.raises(KeyboardInterrupt), drafted_by_generate(3):
        raise KeyboardInterrupt
    assert AssistedCandidateGenerator.get_candidates is before
