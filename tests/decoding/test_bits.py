"""Where the probe promises bits, both lanes draw every token from the very same numbers: greedy and under shared noise.

The drafts are the baseline's own text with errors sown in, so that every length of acceptance, refusals and rewinds
occur at any draft length. Compared are the ids and every bit of the probability that each was drawn with.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.drafter import Draft, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.linear import halves
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.promise import Promise, probe
from specdemo.decoding.runner import Runner
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.models.lean import lean_runner
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from tests.threads import threads
from tests.tiny import tiny_llama, tiny_qwen2, tiny_qwen3

GREEDY = SamplingParams()
WARM = SamplingParams(temperature=0.8, top_p=0.95, seed=5)
HOT = SamplingParams(temperature=1.3, min_p=0.02, repetition_penalty=1.1, seed=6)


class Sown:
    """Drafts the text that is known already, one token in `every` replaced by another."""

    aux_layers: tuple[int, ...] = ()
    max_length = 1 << 30

    def __init__(self, text: Sequence[int], vocab: int, every: int = 5, seed: int = 0) -> None:
        self.text, self.vocab, self.every, self.random = text, vocab, every, random.Random(seed)
        self.at = 0

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        self.at = 1

    def propose(self, gamma: int, draw: Draw) -> Draft:
        known = [*self.text[self.at : self.at + gamma], *[0] * gamma][:gamma]
        wrong = [self.random.randrange(self.every) == 0 for _ in known]
        return Draft(torch.tensor([(i + w) % self.vocab for i, w in zip(known, wrong, strict=True)]))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self.at += len(tokens)


def drawn(steps: Sequence[Step]) -> list[tuple[int, float | None]]:
    """Every token with the probability that it was drawn with."""
    return [(token.id, token.p) for step in steps for token in step.tokens]


def compare_lanes(
    runner: Runner, twin: Runner, prompt: Sequence[int], params: SamplingParams, gammas: Sequence[int], tokens: int
) -> int:
    """Hold the speculative lane at each γ to the baseline; the number of tokens compared."""

    def ending() -> Ending:
        return Ending(Limits(tokens, runner.max_length), len(prompt))

    baseline = drawn(list(autoregressive(runner, prompt, params, ending())))
    text = [token for token, _ in baseline]
    refused = 0
    for gamma in gammas:
        drafter = Sown(text, runner.vocab_size, seed=gamma)
        steps = list(speculative(twin, drafter, prompt, params, Rule.SHARED_NOISE, gamma, ending()))
        assert drawn(steps) == baseline, f"γ {gamma}, {params}, a prompt of {len(prompt)}"
        refused += sum(step.accepted < len(step.drafted) for step in steps)
    assert refused, "nothing was ever taken back: this proves nothing"
    return len(text) * len(gammas)


def some_ids(vocab: int, n: int) -> tuple[int, ...]:
    return tuple(torch.randint(vocab, (n,), generator=torch.Generator().manual_seed(n)).tolist())


@pytest.mark.parametrize("make", [tiny_llama, tiny_qwen2, tiny_qwen3], ids=lambda f: f.__name__)
def test_lanes_of_tiny_models_draw_from_the_same_bits(make: Callable[[], PreTrainedModel]) -> None:
    runner = lean_runner(make())
    if probe(runner).promise is not Promise.BIT_IDENTICAL:
        pytest.skip("this machine promises no bits here")
    compared = 0
    with threads(1):
        for length, params in product((1, 30, 240, 370), (GREEDY, WARM, HOT)):
            gammas = range(1, 17) if (length, params) == (370, WARM) else (3, 16)
            prompt = some_ids(runner.vocab_size, length)
            compared += compare_lanes(runner, runner.twin(), prompt, params, gammas, 40)
    assert compared > 1400


@pytest.mark.embedded
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_lanes_of_the_embedded_target_draw_from_the_same_bits(precision: str) -> None:
    if precision == "fp16" and not halves(torch.device("cpu"), torch.float16):
        pytest.skip("this CPU has no products with fp16 weights")
    pair = load_pair(PairSpec(target_precision=precision, device="cpu"))
    if not pair.bits_promised:
        pytest.skip(f"this machine promises no bits here: {pair.facts['promise']}")
    compared = 0
    cases = (  # across 256 keys and across 512, where blocks of keys end
        (244, WARM, (2, 5), 26),
        (500, HOT if precision == "fp32" else GREEDY, (4, 16), 26),
    )
    for length, params, gammas, tokens in cases:
        prompt = some_ids(pair.target.vocab_size, length)
        compared += compare_lanes(pair.target, pair.target_twin, prompt, params, gammas, tokens)
    assert compared > 100
