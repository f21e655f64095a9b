"""Replayed drafts are the eager ones, whatever the rule, the sampling and the policy; a round reads the device once.

A replay is a call here (see capture.Calls).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from specdemo.bench.random_head import random_head
from specdemo.decoding.capture import Calls
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.dice import Dice
from specdemo.decoding.draft_length import Confidence
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Policy
from specdemo.decoding.runner import Runner
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.drafters.captured import CapturedHead, captured_model
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.head import HeadDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.lean import lean_runner
from tests.free_draw import FreeDraw
from tests.reads import counted_reads
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_llama

LONGEST = 8
MODEL = tiny_llama(vocab_size=48)
DRAFT = noised(MODEL, 0.05)
PROMPT = [7, 7, 3, 9, 4, 7, 3, 9, 4, 7, 3, 9, 5, 1, 2]

GREEDY = SamplingParams()
WARM = SamplingParams(temperature=1.0, seed=4)
CUT = SamplingParams(temperature=0.9, top_p=0.9, top_k=30, repetition_penalty=1.2, draft_temperature=0.7, seed=5)


def a_head(model: PreTrainedModel = MODEL) -> HeadDrafter:
    return random_head(model.config, model.get_input_embeddings().weight.detach(), model.config.vocab_size, 400)


def captured_head() -> CapturedHead:
    return CapturedHead.of(a_head(), Calls(), LONGEST, lambda fraction, message: None)


DRAFTERS: dict[str, tuple[Callable[[], Drafter], Callable[[], Drafter]]] = {
    "model": (
        lambda: ModelDrafter(lean_runner(DRAFT)),
        lambda: captured_model(lean_runner(DRAFT), Calls(), LONGEST),
    ),
    "head": (a_head, captured_head),
    "lookup and head": (
        lambda: CombinedDrafter(NgramDrafter(CPU), a_head()),
        lambda: CombinedDrafter(NgramDrafter(CPU), captured_head()),
    ),
}


@pytest.fixture(scope="module")
def target() -> CapturedRunner:
    return CapturedRunner(lean_runner(MODEL), Calls(), range(1, LONGEST + 2), a_head().aux_layers)


def steps_of(
    runner: Runner, drafter: Drafter, params: SamplingParams, rule: Rule, gamma: int | Policy, tokens: int = 32
) -> list[Step]:
    ending = Ending(Limits(tokens, 500), len(PROMPT))
    return list(speculative(runner, drafter, PROMPT, params, rule, gamma, ending))


def told(steps: list[Step]) -> tuple[list[int], list[list[int]], list[float]]:
    """The text, what was drafted, and with which probabilities."""
    ids = [token.id for step in steps for token in step.tokens]
    return ids, [[d.id for d in step.drafted] for step in steps], [d.q for step in steps for d in step.drafted]


CASES = [
    ("model", GREEDY, Rule.SHARED_NOISE, 5),
    ("model", WARM, Rule.REJECTION, 8),
    ("model", CUT, Rule.BLOCK, 4),
    ("model", CUT, Rule.SHARED_NOISE, 2),
    ("head", GREEDY, Rule.SHARED_NOISE, 2),
    ("head", CUT, Rule.BLOCK, 3),
    ("lookup and head", WARM, Rule.SHARED_NOISE, 3),
]


@pytest.mark.parametrize(("name", "params", "rule", "gamma"), CASES)
def test_texts_and_drafts_are_those_of_the_eager_engine(
    name: str, target: CapturedRunner, params: SamplingParams, rule: Rule, gamma: int
) -> None:
    eager, replayed = (make() for make in DRAFTERS[name])
    steps_of(target, replayed, WARM, Rule.SHARED_NOISE, 1, tokens=4)  # a run before, sampled otherwise
    ids, drafted, qs = told(steps_of(lean_runner(MODEL), eager, params, rule, gamma))
    again = told(steps_of(target, replayed, params, rule, gamma))
    assert again[:2] == (ids, drafted) and len(ids) == 32
    assert again[2] == pytest.approx(qs, abs=1e-4)


@pytest.mark.parametrize(("name", "tokens"), [("model", 240), ("head", 120)])
def test_a_long_text_over_several_spans(name: str, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdemo.decoding.capture.SHORTEST_SPAN", 64)
    eager, replayed = (make() for make in DRAFTERS[name])
    runner = CapturedRunner(lean_runner(MODEL), Calls(), range(1, 4), eager.aux_layers)
    lanes = [(lean_runner(MODEL), eager), (runner, replayed)]
    mine, other = (told(steps_of(*lane, WARM, Rule.SHARED_NOISE, 2, tokens))[:2] for lane in lanes)
    assert mine == other and len(mine[0]) == tokens


def test_a_policy_that_looks_at_logits_is_asked_as_ever(target: CapturedRunner) -> None:
    lanes = zip((lean_runner(MODEL), target), (make() for make in DRAFTERS["model"]), strict=True)
    mine, other = (told(steps_of(*lane, GREEDY, Rule.SHARED_NOISE, Confidence(5, least=0.3)))[:2] for lane in lanes)
    assert mine == other
    assert len({len(drafted) for drafted in mine[1]}) > 2, "chains end early here"


@pytest.mark.parametrize("params", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("replayed", [False, True], ids=["eager", "replayed"])
def test_a_round_reads_the_device_once(
    name: str, replayed: bool, params: SamplingParams, target: CapturedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read a drafted token: only the judged ones come to the host, in one table. Judged as on a device."""
    monkeypatch.setattr(Dice, "judge", Dice._at_once)
    drafter = DRAFTERS[name][replayed]()
    runner = target if replayed else lean_runner(MODEL)
    steps = speculative(runner, drafter, PROMPT, params, Rule.SHARED_NOISE, 3, Ending(Limits(14, 500), len(PROMPT)))
    next(steps)
    next(steps)  # a way of sampling is recorded in its first round
    with counted_reads() as reads:
        rounds = sum(1 for _ in steps)
    assert reads.count == rounds > 2


def test_drafters_without_a_lane_are_drawn_for_as_they_are(target: CapturedRunner) -> None:
    """Whoever draws otherwise than a lane's dice is called for every token."""
    drafter = captured_head()
    hidden = torch.randn(len(PROMPT), 3 * MODEL.config.hidden_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        drafter.begin(torch.tensor(PROMPT), 3, hidden, 60)
        draft = drafter.propose(
            3, FreeDraw(lambda logits, drafted: (torch.tensor(5 + len(drafted)), torch.tensor(0.5)))
        )
    assert draft.ids.tolist() == [5, 6, 7] and draft.q.tolist() == [0.5] * 3
