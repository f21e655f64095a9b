"""The whole speculative loop writes sequences with the target's own law: against the enumeration of all of them.

Tables as models, thousands of seeds a case. What is held here and not in test_verification.py: that the loop gives each
rule noise that is independent where it must be, over drafts, rounds and positions, and the right prefix to each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from specdemo.decoding import sampling
from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.drafter import Draft, Drafter, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Policy
from specdemo.decoding.sampling import Stream
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from tests.chisquare import assert_follows
from tests.tables import CPU, ChainRunner, TableRunner, Tables, joint, reference, tables
from tests.threads import one_thread  # noqa: F401

RUNS = 1000


class OneHotDrafter:
    """Always proposes the last token's successors: a deterministic drafter, one short every third time."""

    aux_layers: tuple[int, ...] = ()
    max_length = 1 << 20

    def __init__(self, vocab: int) -> None:
        self.vocab, self.ids = vocab, [0]

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        self.ids = [*prompt_ids.tolist(), first]

    def propose(self, gamma: int, draw: Draw) -> Draft:
        n = gamma - 1 if len(self.ids) % 3 == 0 else gamma
        return Draft(torch.tensor([(self.ids[-1] + 1 + i) % self.vocab for i in range(n)], dtype=torch.long))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self.ids += tokens


def model_drafter(target: Tables) -> Drafter:
    return ModelDrafter(TableRunner(target.like(noise=0.9)))


def one_hot_drafter(target: Tables) -> Drafter:
    return OneHotDrafter(target.vocab_size)


def ngram_drafter(target: Tables) -> Drafter:
    return NgramDrafter(CPU, longest=2, shortest=1)


class TrustedNgram(NgramDrafter):
    """Counts one token more in every match, so that in texts this short a lookup is tried beside the model."""

    def look_up(self, gamma: int, counted: int = 0) -> tuple[list[int], int]:
        copied, matched = super().look_up(gamma, counted)
        return copied, matched and matched + 1


def combined_drafter(target: Tables) -> Drafter:
    return CombinedDrafter(TrustedNgram(CPU, longest=2, shortest=1), model_drafter(target))


def histogram(
    target: Tables,
    make: Callable[[Tables], Drafter],
    params: SamplingParams,
    rule: Rule,
    gamma: int | Callable[[], Policy],
    runs: int = RUNS,
) -> np.ndarray:
    """How often each sequence of len(levels) tokens is written, over the seeds 0 .. runs - 1."""
    n, vocab = len(target.levels), target.vocab_size
    limits = Limits(max_new_tokens=n, context=1000)
    runner, drafter = TableRunner(target), make(target)
    found = np.zeros(vocab**n, dtype=int)
    for seed in range(runs):
        seeded = SamplingParams(**{name: getattr(params, name) for name in params.__slots__} | {"seed": seed})
        ending = Ending(limits, len(target.prompt))
        row = 0
        length = gamma if isinstance(gamma, int) else gamma()
        for step in speculative(runner, drafter, target.prompt, seeded, rule, length, ending):
            for token in step.tokens:
                row = row * vocab + token.id
        found[row] += 1
    return found


HOT = SamplingParams(temperature=1.0)
CASES = [  # vocabulary, tokens, γ, rule, drafter, params
    (4, 4, 1, Rule.REJECTION, model_drafter, HOT),
    (3, 5, 3, Rule.REJECTION, model_drafter, SamplingParams(temperature=1.0, draft_temperature=0.5)),
    (4, 4, 2, Rule.REJECTION, model_drafter, SamplingParams(temperature=1.3, top_k=3, top_p=0.9)),
    (3, 5, 2, Rule.REJECTION, one_hot_drafter, SamplingParams(temperature=0.8, repetition_penalty=1.5)),
    (3, 5, 3, Rule.BLOCK, model_drafter, HOT),
    (3, 5, 2, Rule.BLOCK, model_drafter, SamplingParams(temperature=1.0, draft_temperature=1.8, top_p=0.85)),
    (4, 4, 2, Rule.BLOCK, model_drafter, SamplingParams(temperature=1.0, repetition_penalty=1.6)),
    (3, 5, 3, Rule.BLOCK, ngram_drafter, SamplingParams(temperature=1.0, min_p=0.1)),
    (3, 5, 3, Rule.SHARED_NOISE, model_drafter, SamplingParams(temperature=1.0, draft_temperature=0.6)),
    (4, 4, 1, Rule.SHARED_NOISE, model_drafter, SamplingParams(temperature=1.2, min_p=0.15, repetition_penalty=0.8)),
    (3, 5, 2, Rule.SHARED_NOISE, ngram_drafter, HOT),
    (3, 5, 2, Rule.REJECTION, combined_drafter, HOT),
    (3, 5, 3, Rule.BLOCK, combined_drafter, SamplingParams(temperature=1.0, draft_temperature=0.6)),
    (3, 5, 2, Rule.SHARED_NOISE, combined_drafter, SamplingParams(temperature=1.0, top_p=0.9)),
]


@pytest.mark.parametrize(("vocab", "tokens", "gamma", "rule", "drafter", "params"), CASES)
def test_sequences_follow_the_targets_law(
    vocab: int, tokens: int, gamma: int, rule: Rule, drafter: Callable, params: SamplingParams
) -> None:
    target = tables(vocab, tokens, seed=vocab * 10 + gamma, spread=1.0)
    assert_follows(histogram(target, drafter, params, rule, gamma), joint(reference(target, params)))


def test_so_do_those_of_the_baseline() -> None:
    params = SamplingParams(temperature=0.9, top_p=0.9, repetition_penalty=1.3)
    target = tables(3, 5, seed=2, spread=1.0)
    found = np.zeros(3**5, dtype=int)
    for seed in range(RUNS):
        seeded = SamplingParams(temperature=0.9, top_p=0.9, repetition_penalty=1.3, seed=seed)
        steps = autoregressive(TableRunner(target), target.prompt, seeded, Ending(Limits(5, 1000), 1))
        found[int("".join(str(step.tokens[0].id) for step in steps), 3)] += 1
    assert_follows(found, joint(reference(target, params)))


def chain(first_row: list[float]) -> Tables:
    """A Markov chain whose every row is the first one, turned."""
    rows = [torch.tensor(first_row).roll(i) for i in range(len(first_row))]
    return Tables((torch.zeros(1, len(rows)), torch.stack(rows).log()))


CHAIN, DRAFT_CHAIN = chain([0.35, 0.45, 0.2]), chain([0.3, 0.2, 0.5])


def long_run(
    rule: Rule, params: SamplingParams = HOT, tokens: int = 3000, gamma: int | Policy = 3
) -> tuple[np.ndarray, np.ndarray]:
    """How often each token followed each pair in one run of a Markov chain, and how often it should: both [27].

    Conditional on how often each pair came up, so the freedom is less than the cells say: a little on the safe side.
    """
    ending = Ending(Limits(tokens, tokens + 10), 1)
    ids = [0]
    drafter = ModelDrafter(ChainRunner(DRAFT_CHAIN))
    for step in speculative(ChainRunner(CHAIN), drafter, (0,), params, rule, gamma, ending):
        ids += [token.id for token in step.tokens]
    triples = np.zeros((3, 3, 3))
    for triple in zip(ids, ids[1:], ids[2:], strict=False):
        triples[triple] += 1
    should = triples.sum(2, keepdims=True) * reference(CHAIN, params)[1][None]  # what came before says nothing
    return triples.ravel(), should.ravel() / should.sum()


@pytest.mark.parametrize("rule", Rule)
def test_one_long_run_moves_as_the_chain_does_whatever_came_before(rule: Rule) -> None:
    """Under one seed: rounds and positions draw independent noise."""
    assert_follows(*long_run(rule))


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("draft_temperature", [None, 0.7])
def test_no_noise_is_used_twice(rule: Rule, draft_temperature: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only shared noise gives a position's noise to drafter and target both; and to nothing else."""
    used = watch_noise(monkeypatch)
    params = SamplingParams(temperature=1.0, draft_temperature=draft_temperature)
    long_run(rule, params, tokens=200)
    if rule is Rule.SHARED_NOISE:
        assert {stream for stream, _ in used} == {Stream.TARGET}
        assert {counter for _, counter in used} == set(range(1, 201))  # positions 1 .. 200, no more and no less
    else:
        assert len(used) == len(set(used))
        assert {stream for stream, _ in used} == set(Stream)


def watch_noise(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Stream, int]]:
    """Every (stream, counter) that noise was made of from now on."""
    used: list[tuple[Stream, int]] = []
    keys = sampling.noise_keys

    def watched(seed: int, stream: Stream, counters: Sequence[int]) -> list[tuple[int, int]]:
        used.extend((stream, counter) for counter in counters)
        return keys(seed, stream, counters)

    monkeypatch.setattr(sampling, "noise_keys", watched)
    return used
