"""What the caches still hold of a chat is not run again, in neither lane, and nobody can tell it from the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import torch
from transformers import PreTrainedModel

from specdemo.bench.random_head import random_head
from specdemo.decoding.draft_length import Levels
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.kv import KVCache
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from specdemo.decoding.runner import Runner
from specdemo.decoding.steps import Rule, Step
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.runners import make_runner
from specdemo.race import Lane, Request, race
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_gpt2, tiny_llama

LLAMA, GPT2 = tiny_llama(vocab_size=64), tiny_gpt2(vocab_size=64)
PROMPT = (7, 7, 3, 9, 4, 7, 3, 9, 4, 7, 3, 9, 5, 1, 2)
SAYS = ((11, 12, 13), tuple(range(50)))  # what is said next: little and much
SAMPLED = SamplingParams(temperature=0.8, top_p=0.95, repetition_penalty=1.1, seed=5)


@dataclass
class ToyPair:
    """What `race` asks of a Pair, over a tiny model."""

    target: Runner
    target_twin: Runner
    drafter: Drafter
    context: int = 400
    eos_ids: frozenset[int] = frozenset()
    tokenizer: object = None
    levels: Levels = field(default_factory=Levels)
    calibration: None = None


@dataclass
class Answer:
    """One turn: both lanes' steps."""

    steps: dict[Lane, list[Step]] = field(default_factory=lambda: {lane: [] for lane in Lane})

    def ids(self, lane: Lane) -> tuple[int, ...]:
        return tuple(token.id for step in self.steps[lane] for token in step.tokens)


def lookup(model: PreTrainedModel) -> Drafter:
    return NgramDrafter(CPU)


def small_model(model: PreTrainedModel) -> Drafter:
    return ModelDrafter(GeneralRunner(noised(model, 0.05)))


def head(model: PreTrainedModel) -> Drafter:
    return random_head(model.config, model.get_input_embeddings().weight.detach(), model.config.vocab_size, 400)


def combined(model: PreTrainedModel) -> Drafter:
    return CombinedDrafter(NgramDrafter(CPU), small_model(model))


def padded(model: PreTrainedModel) -> Runner:
    return EqualShapes(make_runner(model), (6,))


CASES = [
    (LLAMA, make_runner, lookup),
    (LLAMA, make_runner, small_model),
    (LLAMA, make_runner, head),
    (LLAMA, make_runner, combined),
    (LLAMA, padded, small_model),
    (GPT2, GeneralRunner, small_model),
]
NAMES = ["lookup", "small model", "head", "combined", "equal shapes", "general runner"]


def answer(pair: ToyPair, request: Request) -> Answer:
    said = Answer()
    for one in race(pair, request):
        said.steps[one.lane].append(one.step)
    return said


@pytest.mark.parametrize(("model", "runner", "drafter"), CASES, ids=NAMES)
@pytest.mark.parametrize("params", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_a_chat_reads_the_same_with_and_without_reuse_and_runs_less(
    model: PreTrainedModel, runner: Callable[[PreTrainedModel], Runner], drafter: Callable, params: SamplingParams
) -> None:
    def pair() -> ToyPair:
        return ToyPair(runner(model), runner(model), drafter(model))

    chat = pair()
    request = Request(prompt_ids=PROMPT, params=params, gamma=4, max_new_tokens=24, reuse=True)
    said = answer(chat, request)
    assert {step.reused for step in said.steps[Lane.BASELINE]} == {0}, "an empty cache holds nothing"
    for words in SAYS:
        before = request.prompt_ids + said.ids(Lane.BASELINE)
        request = replace(request, prompt_ids=before + words)
        said, fresh = answer(chat, request), answer(pair(), replace(request, reuse=False))
        first = {lane: said.steps[lane][0] for lane in Lane}
        reused = {step.reused for step in first.values()}
        assert len(reused) == 1, "alike in both lanes"
        assert len(before) - 8 <= reused.pop() < len(before)
        assert all(step.kv_length == len(request.prompt_ids) for step in first.values())
        for lane in Lane:
            assert all(step.reused == 0 for step in said.steps[lane][1:])
            parting = find_parting(make_runner(model), request.prompt_ids, params, said.ids(lane), fresh.ids(lane))
            assert parting is None or parting.tie, f"{lane}: {parting}"


def test_a_draft_made_with_reuse_is_the_draft_made_without() -> None:
    """The head is the one that could go wrong unseen: its rows hang on the target's and on the token behind them."""
    chat = ToyPair(make_runner(LLAMA), make_runner(LLAMA), head(LLAMA))
    fresh = ToyPair(make_runner(LLAMA), make_runner(LLAMA), chat.drafter)
    request = Request(prompt_ids=PROMPT, gamma=4, max_new_tokens=24, reuse=True)
    said = answer(chat, request)
    request = replace(request, prompt_ids=PROMPT + said.ids(Lane.BASELINE) + SAYS[0])
    drafts = [
        [drafted.id for step in answer(pair, asked).steps[Lane.SPECULATIVE] for drafted in step.drafted]
        for pair, asked in ((chat, request), (fresh, replace(request, reuse=False)))
    ]
    assert drafts[0] == drafts[1] and len(drafts[0]) > 20


def test_only_what_both_lanes_and_the_drafter_hold_is_reused() -> None:
    pair = ToyPair(make_runner(LLAMA), make_runner(LLAMA), small_model(LLAMA))
    request = Request(prompt_ids=PROMPT, gamma=4, max_new_tokens=24, reuse=True)
    said = answer(pair, request)
    other = (*PROMPT[:6], 60, *said.ids(Lane.BASELINE))  # a prompt that parts from the last one early
    assert answer(pair, replace(request, prompt_ids=other)).steps[Lane.BASELINE][0].reused == 5
    pair.target.begin(10)  # somebody else used one lane's cache
    assert answer(pair, replace(request, prompt_ids=other)).steps[Lane.SPECULATIVE][0].reused == 0


@pytest.mark.parametrize(("model", "runner", "drafter"), CASES, ids=NAMES)
@pytest.mark.parametrize("gamma", [0, 4])
def test_a_run_that_builds_upon_nothing_leaves_nothing_of_the_one_before(
    model: PreTrainedModel, runner: Callable[[PreTrainedModel], Runner], drafter: Callable, gamma: int
) -> None:
    """Even one that is stopped at once, or never drafts: the next may be told how much of its prompt was held."""
    pair = ToyPair(runner(model), runner(model), drafter(model))
    request = Request(prompt_ids=PROMPT, gamma=4, max_new_tokens=8)
    answer(pair, request)
    stopped = race(pair, replace(request, prompt_ids=(60, 61, *PROMPT), gamma=gamma))
    next(stopped)
    stopped.close()
    ids = torch.tensor(PROMPT)
    assert pair.target.held(ids) == pair.target_twin.held(ids) == 0
    assert isinstance(pair.drafter, NgramDrafter) or pair.drafter.held(ids) <= 1


def test_a_plain_run_never_reuses() -> None:
    pair = ToyPair(make_runner(LLAMA), make_runner(LLAMA), small_model(LLAMA))
    request = Request(prompt_ids=PROMPT, gamma=4, max_new_tokens=8)
    answer(pair, request)
    assert answer(pair, request).steps[Lane.BASELINE][0].reused == 0


def test_under_every_rule_the_prefix_is_the_whole_of_what_is_common() -> None:
    for rule in Rule:
        pair = ToyPair(make_runner(LLAMA), make_runner(LLAMA), small_model(LLAMA))
        request = Request(prompt_ids=PROMPT, params=SAMPLED, rule=rule, gamma=4, max_new_tokens=8, reuse=True)
        answer(pair, request)
        assert answer(pair, request).steps[Lane.BASELINE][0].reused == len(PROMPT) - 1


def test_a_cache_that_grows_takes_the_kept_rows_along() -> None:
    cache = KVCache(1)
    cache.begin(20)
    rows = torch.arange(30.0).view(1, 1, 10, 3)
    cache.write(0, rows, -rows)
    cache.advance(torch.arange(10))
    cache.begin(100, keep=7)
    keys, values = cache.write(0, rows[:, :, :1] + 50, rows[:, :, :1])
    assert cache.held(torch.tensor([0, 1, 2, 3, 9])) == 4 and cache.held(torch.arange(20)) == 7
    assert torch.equal(keys[:, :, :7], rows[:, :, :7]) and torch.equal(values[:, :, :7], -rows[:, :, :7])
    assert keys.shape[2] == 8
