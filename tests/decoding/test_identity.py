"""Greedy, and under shared noise, both lanes write the same text to the token; greedy it is also `model.generate`'s.

Drafts are the n-gram lookup and the target with noise on its weights, at two levels. A difference is excused only by a
proven near-tie, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.general_runner import GeneralRunner
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_gpt2, tiny_llama, tiny_qwen2, tiny_qwen3

TINY = [tiny_llama, tiny_qwen2, tiny_qwen3, tiny_gpt2]
PROMPTS = 10  # of each architecture: 40 in all
TOKENS = 16
GAMMAS = (1, 4, 8)
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=1.0, top_p=0.95)


def prompts(vocab: int, n: int = PROMPTS) -> list[tuple[int, ...]]:
    """Of 1 to 40 tokens; every other one repeats itself, so that lookups find something."""
    g = torch.Generator().manual_seed(vocab)
    found = []
    for i in range(n):
        ids = torch.randint(vocab, (1 + 4 * i,), generator=g).tolist()
        found.append(tuple(ids if i % 2 else (ids[:6] * 7)[: len(ids)]))
    return found


def ending(prompt: tuple[int, ...], tokens: int = TOKENS) -> Ending:
    return Ending(Limits(tokens, 512), len(prompt))


def ids_of(steps: Iterable[Step]) -> list[int]:
    return [token.id for step in steps for token in step.tokens]


class Bench:
    """One architecture: target, its three drafters, and a tally of what was accepted and how many ties were met."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.runner = GeneralRunner(model)
        self.twin = GeneralRunner(model)
        self.noised = [ModelDrafter(GeneralRunner(noised(model, scale))) for scale in (0.02, 0.05)]
        self.drafters: list[Drafter] = [NgramDrafter(CPU), *self.noised]
        self.accepted = self.judged = self.ties = self.runs = 0

    def baseline(self, prompt: tuple[int, ...], params: SamplingParams) -> list[int]:
        return ids_of(autoregressive(self.runner, prompt, params, ending(prompt)))

    def speculative(self, prompt: tuple[int, ...], params: SamplingParams, drafter: Drafter, gamma: int) -> list[int]:
        steps = list(speculative(self.twin, drafter, prompt, params, Rule.SHARED_NOISE, gamma, ending(prompt)))
        if drafter in self.noised:
            self.accepted += sum(step.accepted for step in steps)
            self.judged += sum(step.judged for step in steps)
        return ids_of(steps)

    def generate(self, prompt: tuple[int, ...]) -> list[int]:
        ids = torch.tensor([prompt])
        out = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=TOKENS, pad_token_id=0
        )
        return out[0, len(prompt) :].tolist()

    def assert_same(self, prompt: tuple[int, ...], params: SamplingParams, one: list[int], other: list[int]) -> None:
        self.runs += 1
        parting = find_parting(self.runner, prompt, params, one, other)
        if parting is not None:
            assert parting.tie and parting.gap < 1e-4, f"the texts part: {parting}"
            self.ties += 1

    def assert_tally(self) -> None:
        assert self.ties <= 0.02 * self.runs
        assert 0.3 < self.accepted / self.judged < 0.9


@pytest.fixture(scope="module", params=TINY, ids=lambda make: make.__name__)
def bench(request: pytest.FixtureRequest) -> Bench:
    make: Callable[[], PreTrainedModel] = request.param
    return Bench(make())


def test_greedy_lanes_and_generate_write_the_same_tokens(bench: Bench) -> None:
    bench.accepted = bench.judged = bench.ties = bench.runs = 0
    for prompt in prompts(bench.runner.vocab_size):
        baseline = bench.baseline(prompt, GREEDY)
        assert len(baseline) == TOKENS
        bench.assert_same(prompt, GREEDY, baseline, bench.generate(prompt))
        for drafter in bench.drafters:
            for gamma in GAMMAS:
                bench.assert_same(prompt, GREEDY, baseline, bench.speculative(prompt, GREEDY, drafter, gamma))
    bench.assert_tally()


def test_under_shared_noise_lanes_write_the_same_tokens(bench: Bench) -> None:
    """At temperature 1 with top-p 0.95, a seed a prompt; the draft's own temperature changes nothing."""
    bench.accepted = bench.judged = bench.ties = bench.runs = 0
    for seed, prompt in enumerate(prompts(bench.runner.vocab_size, 6)):
        params = replace(SAMPLED, seed=seed)
        baseline = bench.baseline(prompt, params)
        for drafter in bench.drafters:
            bench.assert_same(prompt, params, baseline, bench.speculative(prompt, params, drafter, gamma=4))
        cold = replace(params, draft_temperature=0.6, repetition_penalty=1.2)
        baseline = bench.baseline(prompt, cold)
        bench.assert_same(prompt, cold, baseline, bench.speculative(prompt, cold, bench.noised[0], gamma=3))
    assert bench.baseline((1, 2), SAMPLED) != bench.baseline((1, 2), replace(SAMPLED, seed=1))
    bench.assert_tally()


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("params", [GREEDY, replace(SAMPLED, seed=3, repetition_penalty=1.3)])
def test_a_draft_length_of_0_is_plain_decoding(bench: Bench, rule: Rule, params: SamplingParams) -> None:
    """To the token and to the last digit of every probability, whatever the rule; the drafter is never asked."""
    prompt = prompts(bench.runner.vocab_size)[5]
    plain = list(autoregressive(bench.runner, prompt, params, ending(prompt)))
    none = list(speculative(bench.twin, Unasked(), prompt, params, rule, 0, ending(prompt)))
    assert [step.tokens for step in none] == [step.tokens for step in plain]
    assert [(s.why, s.kv_length, s.stop, s.drafted) for s in none] == [(s.why, s.kv_length, s.stop, ()) for s in plain]


class Unasked:
    """A drafter that must not be asked."""

    aux_layers = ()
    max_length = 512


@pytest.mark.parametrize("rule", Rule)
def test_greedy_every_rule_writes_the_same(bench: Bench, rule: Rule) -> None:
    prompt = prompts(bench.runner.vocab_size)[3]
    steps = speculative(bench.twin, bench.noised[1], prompt, GREEDY, rule, 4, ending(prompt))
    bench.assert_same(prompt, GREEDY, bench.baseline(prompt, GREEDY), ids_of(steps))


def test_a_used_drafter_and_cache_are_as_good_as_new(bench: Bench) -> None:
    """Two prompts one after the other, the first stopped in mid-run: the second owes nothing to it."""
    first, second = prompts(bench.runner.vocab_size)[8:10]
    for drafter, fresh in (
        (NgramDrafter(CPU), NgramDrafter(CPU)),
        (bench.noised[0], ModelDrafter(GeneralRunner(bench.noised[0].runner.model))),
    ):
        stopped = speculative(bench.twin, drafter, first, GREEDY, Rule.SHARED_NOISE, 4, ending(first))
        for _ in range(3):
            next(stopped)
        stopped.close()
        used, new = (
            list(speculative(runner, d, second, SAMPLED, Rule.REJECTION, 4, ending(second)))
            for runner, d in ((bench.twin, drafter), (GeneralRunner(bench.model), fresh))
        )
        assert [(s.tokens, s.drafted) for s in used] == [(s.tokens, s.drafted) for s in new]


def test_after_rewinds_the_caches_hold_what_a_prefill_would(bench: Bench) -> None:
    """Both models' caches, at every step of a run with refusals, give the logits that a fresh prefill gives."""
    prompt = prompts(bench.runner.vocab_size)[7]
    drafter, emitted = bench.noised[1], []
    for step in speculative(bench.twin, drafter, prompt, GREEDY, Rule.SHARED_NOISE, 4, ending(prompt)):
        emitted += [token.id for token in step.tokens]
        held = [*prompt, *emitted]
        for runner in (bench.twin, drafter.runner):
            if runner.length >= len(held) or step.stop:
                assert runner is drafter.runner or step.stop or runner.length == len(held) - 1
                continue
            length, probe = runner.length, torch.tensor(held[runner.length :])
            logits = runner.forward(probe, rows=1).logits.clone()
            runner.rewind(length)
            fresh = GeneralRunner(runner.model)
            fresh.begin(len(held))
            torch.testing.assert_close(logits, fresh.forward(torch.tensor(held), rows=1).logits, rtol=1e-4, atol=1e-4)


# --- The embedded target ---------------------------------------------------------------------------------------------

CHATS = [
    "Write a haiku about rivers, then repeat it word for word.",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):",
    "列出三种颜色。",
]


@pytest.mark.embedded
def test_so_do_the_lanes_over_the_embedded_target() -> None:
    """Drafts: the n-gram lookup, and the target with noise on its weights."""
    from specdemo.models.pair import load_pair
    from specdemo.models.pair_options import PairSpec
    from specdemo.models.text import encode_chat

    pair = load_pair(PairSpec(device="cpu", target_precision="fp32"), keep_model=True)
    bench = Bench.__new__(Bench)
    bench.model, bench.runner, bench.twin = pair.loaded.model, pair.target, pair.target_twin
    bench.noised = [ModelDrafter(GeneralRunner(noised(pair.loaded.model, 0.1)))]
    bench.drafters = [pair.drafter, *bench.noised]
    bench.accepted = bench.judged = bench.ties = bench.runs = 0
    for i, text in enumerate(CHATS):
        prompt = tuple(encode_chat(pair.tokenizer, [{"role": "user", "content": text}]))
        baseline = bench.baseline(prompt, GREEDY)
        bench.assert_same(prompt, GREEDY, baseline, bench.generate(prompt)[: len(baseline)])
        for drafter in bench.drafters:
            bench.assert_same(prompt, GREEDY, baseline, bench.speculative(prompt, GREEDY, drafter, (1, 4, 8)[i]))
    params = replace(SAMPLED, seed=1)
    sampled = bench.baseline(prompt, params)
    bench.assert_same(prompt, params, sampled, bench.speculative(prompt, params, pair.drafter, 5))
    bench.assert_tally()
