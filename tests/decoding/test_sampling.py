"""Our processing is transformers' own, row by row and to the bit; the noise is uniform, independent and addressable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.sampling import (
    Sampler,
    Stream,
    exponential,
    noise_keys,
    race_winner,
    truncate,
    truncate_row,
    uniform,
    uniform_bits,
)
from tests.chisquare import assert_follows, assert_mean
from tests.tables import CPU
from tests.threads import one_thread, threads  # noqa: F401
from tests.tiny import tiny_llama

NOTHING = torch.empty(0, dtype=torch.long)
SEEDS = st.integers(0, 2**32 - 1)
PARAMS = st.builds(
    SamplingParams,
    temperature=st.just(1.0) | st.floats(0.05, 3),
    top_k=st.just(0) | st.integers(1, 60),
    top_p=st.just(1.0) | st.floats(0.02, 0.999),
    min_p=st.just(0.0) | st.floats(1e-4, 1),
    repetition_penalty=st.just(1.0) | st.floats(0.5, 2.5),
)
ALL = SamplingParams(temperature=0.8, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.3)


def random_logits(seed: int, rows: int, vocab: int, spread: float = 3) -> Tensor:
    return spread * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


def random_ids(seed: int, n: int, vocab: int) -> Tensor:
    return torch.randint(vocab, (n,), generator=torch.Generator().manual_seed(seed))


def sampler(params: SamplingParams, vocab: int, context: Tensor) -> Sampler:
    return Sampler(params, vocab, CPU, context)


# --- transformers ----------------------------------------------------------------------------------------------------


def processors(params: SamplingParams) -> LogitsProcessorList:
    """transformers' own classes, in the order in which `generate` applies them."""
    chain = LogitsProcessorList()
    if params.repetition_penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(float(params.repetition_penalty)))
    if params.temperature != 1:
        chain.append(TemperatureLogitsWarper(float(params.temperature)))
    if params.top_k:
        chain.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        chain.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        chain.append(MinPLogitsWarper(params.min_p))
    return chain


def theirs(params: SamplingParams, logits: Tensor, context: Tensor) -> Tensor:
    """p [vocab] that transformers would sample from after a context."""
    return processors(params)(context[None], logits[None].clone()).softmax(-1)[0]


def assert_equal_up_to_ties(ours: Tensor, theirs: Tensor, params: SamplingParams) -> None:
    """The same distribution; a token may be in one and not the other only where it lies on a threshold.

    Rounding decides there. At most one token of a row does, at the foot of what is kept.
    """
    differ = (ours > 0) != (theirs > 0)
    assert differ.sum() <= 1, f"{int(differ.sum())} tokens are kept by one side only"
    if differ.any():
        edge = torch.maximum(ours, theirs)
        assert edge[differ] <= edge[edge > 0].min() * (1 + 1e-4)
        before = edge.double()[edge > edge[differ]].sum() if params.top_p < 1 else None
        on_nucleus = before is not None and abs(before / edge.double().sum() - params.top_p) < 1e-4
        on_floor = abs(edge[differ] / edge.max() - params.min_p) < 1e-4 * params.min_p
        assert on_nucleus or on_floor
        ours, theirs = (x.masked_fill(differ, 0) for x in (ours, theirs))
        ours, theirs = ours / ours.sum(), theirs / theirs.sum()
    torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=1e-7)


def test_the_order_is_the_one_in_which_generate_applies_its_processors() -> None:
    config = GenerationConfig(do_sample=True, temperature=0.8, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.3)
    chain = tiny_llama()._get_logits_processor(config, input_ids_seq_length=4)
    assert [type(p) for p in chain] == [type(p) for p in processors(ALL)]


@settings(max_examples=200, deadline=None)
@given(params=PARAMS, seed=SEEDS, vocab=st.integers(2, 400), context=st.integers(1, 50))
def test_a_distribution_is_the_one_transformers_samples_from(
    params: SamplingParams, seed: int, vocab: int, context: int
) -> None:
    logits, ids = random_logits(seed, 1, vocab), random_ids(seed, context, vocab)
    ours = sampler(params, vocab, ids).target(logits, NOTHING)[0]
    assert_equal_up_to_ties(ours, theirs(params, logits[0], ids), params)


@settings(max_examples=25, deadline=None)
@given(params=PARAMS, seed=SEEDS, vocab=st.sampled_from([32_769, 49_152, 70_000]), spread=st.sampled_from([0.3, 3, 9]))
def test_so_it_is_over_a_large_vocabulary(params: SamplingParams, seed: int, vocab: int, spread: float) -> None:
    """Flat ones too, whose nucleus does not lie within the likeliest few hundred."""
    logits, ids = random_logits(seed, 1, vocab, spread), random_ids(seed, 20, vocab)
    ours = sampler(params, vocab, ids).target(logits, NOTHING)[0]
    expected = theirs(params, logits[0], ids)
    if spread < 1 or params.temperature > 1.5:  # thousands of tokens of like probability stand on the threshold
        assert (ours - expected).abs().sum() < 2e-3
    else:
        assert_equal_up_to_ties(ours, expected, params)


def test_greedy_is_the_limit_of_temperature_0() -> None:
    logits, ids = random_logits(1, 3, 50), random_ids(2, 10, 50)
    for penalty in (1.0, 1.3):
        greedy = sampler(SamplingParams(repetition_penalty=penalty), 50, ids).target(logits, ids[:2])
        near = sampler(SamplingParams(temperature=1e-3, repetition_penalty=penalty), 50, ids).target(logits, ids[:2])
        assert torch.equal(greedy.argmax(-1), near.argmax(-1))
        assert torch.equal(greedy.sum(-1), torch.ones(3)) and greedy.amax(-1).eq(1).all()


# --- Rows ------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(params=PARAMS, seed=SEEDS, k=st.integers(0, 8))
def test_each_row_sees_the_drafted_prefix_before_it(params: SamplingParams, seed: int, k: int) -> None:
    vocab = 12  # small, so that drafts repeat
    logits, prompt = random_logits(seed, k + 1, vocab), random_ids(seed, 3, vocab)
    drafted = random_ids(seed + 1, k, vocab)
    rows = sampler(params, vocab, prompt).target(logits, drafted)
    for i in range(k + 1):
        longer = sampler(params, vocab, torch.cat([prompt, drafted[:i]]))
        assert torch.equal(rows[i], longer.target(logits[i : i + 1], NOTHING)[0])


@settings(max_examples=50, deadline=None)
@given(params=PARAMS, seed=SEEDS, k=st.integers(0, 8))
def test_the_draft_is_processed_as_the_target_is(params: SamplingParams, seed: int, k: int) -> None:
    logits, prompt, drafted = random_logits(seed, k + 1, 12), random_ids(seed, 3, 12), random_ids(seed + 1, k, 12)
    mine = sampler(params, 12, prompt)
    assert torch.equal(mine.draft(logits[k], list(drafted)).p, mine.target(logits, drafted)[k])


def test_only_the_draft_has_the_draft_temperature() -> None:
    logits = random_logits(5, 1, 40)
    both = sampler(SamplingParams(temperature=0.7, draft_temperature=1.5, top_p=0.8), 40, NOTHING)
    alone = sampler(SamplingParams(temperature=0.7, top_p=0.8), 40, NOTHING)
    hot = sampler(SamplingParams(temperature=1.5, top_p=0.8), 40, NOTHING)
    assert torch.equal(both.target(logits, NOTHING), alone.target(logits, NOTHING))
    assert torch.equal(both.draft(logits[0], []).p, hot.target(logits, NOTHING)[0])
    greedy_draft = sampler(SamplingParams(temperature=0.7, draft_temperature=0.0), 40, NOTHING)
    assert greedy_draft.draft(logits[0], []).p.max() == 1


def test_committed_tokens_are_penalised_from_then_on() -> None:
    params, logits = SamplingParams(temperature=1.0, repetition_penalty=1.5), random_logits(3, 1, 20)
    lane = sampler(params, 20, torch.tensor([1, 2]))
    lane.commit([5, 7])
    lane.commit([5])
    assert torch.equal(
        lane.target(logits, NOTHING), sampler(params, 20, torch.tensor([1, 2, 5, 7])).target(logits, NOTHING)
    )


@pytest.mark.parametrize(("vocab", "n"), [(300, 1), (49_152, 1), (49_152, 2), (100_000, 2)])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7),
        SamplingParams(temperature=1.0, top_k=40),
        SamplingParams(temperature=1.0, top_p=0.95),
        SamplingParams(temperature=1.5, top_p=0.99),
        SamplingParams(temperature=1.0, min_p=0.01),
        ALL,
    ],
)
def test_a_row_has_the_same_bits_whatever_stands_beside_it(params: SamplingParams, vocab: int, n: int) -> None:
    """With several threads, torch would split the sum of one long row between them."""
    k = 3
    logits, drafted = random_logits(vocab, k + 1, vocab), random_ids(1, k, vocab)
    with threads(n):
        mine = sampler(params, vocab, random_ids(2, 30, vocab))
        rows = mine.target(logits, drafted)
        for i in range(k + 1):
            assert torch.equal(mine.target(logits[: i + 1], drafted[:i])[i], rows[i])
            assert torch.equal(mine.draft(logits[i], list(drafted[:i])).p, rows[i])


def test_tied_tokens_are_kept_or_dropped_together() -> None:
    p = torch.tensor([[0.4, 0.2, 0.2, 0.2]])
    assert torch.equal(truncate(p, SamplingParams(top_k=2)), p)
    assert torch.equal(truncate(p, SamplingParams(top_p=0.5)), p)
    assert torch.equal(truncate(p, SamplingParams(top_p=0.3)), torch.tensor([[1.0, 0, 0, 0]]))


@pytest.mark.parametrize(("top_p", "kept"), [(0.6, 1), (0.7, 1), (0.71, 2), (0.95, 3)])
def test_a_nucleus_that_just_weighs_enough_is_enough_on_a_cpu_as_on_a_device(top_p: float, kept: int) -> None:
    p, params = torch.tensor([[0.7, 0.2, 0.1]]), SamplingParams(top_p=top_p)
    row = p[0].numpy().copy()
    truncate_row(row, params)
    assert (row > 0).sum() == (truncate(p, params) > 0).sum() == kept


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_give_a_distribution_that_is_none(temperature: float) -> None:
    """So that nothing hides them from whoever looks at the drawn token's probability."""
    plain = SamplingParams(temperature=temperature)
    for params in (plain, replace(plain, top_k=3, top_p=0.9)):
        for broken in (torch.full((1, 8), torch.nan), torch.tensor([[0.0, torch.nan, 1, 2, 3, 4, 5, 6]])):
            p = sampler(params, 8, NOTHING).target(broken, NOTHING)
            assert p[0, race_winner(p, 1)].isnan().all()


# --- Noise -----------------------------------------------------------------------------------------------------------

M64, M32 = (1 << 64) - 1, (1 << 32) - 1


def plain_mix(x: int) -> int:
    """splitmix64's finaliser."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def plain_bits(seed: int, stream: int, counter: int, token: int) -> int:
    """The 31 bits of one token's noise, in unsigned arithmetic of unlimited width."""
    golden = 0x9E3779B97F4A7C15
    key = plain_mix((plain_mix((seed & M64) ^ plain_mix((stream * golden) & M64)) + counter * golden) & M64)
    x = token ^ (key & M32)
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & M32
    x = (x ^ (x >> 15)) ^ (key >> 32)
    x = (x * 0x846CA68B) & M32
    x = ((x ^ (x >> 16)) * 0x9E3779B1) & M32
    return (x ^ (x >> 15)) & 0x7FFFFFFF


def ids(n: int) -> Tensor:
    return torch.arange(n, dtype=torch.int32)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    stream=st.sampled_from(Stream),
    counter=st.integers(0, 2**40),
    tokens=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20),
)
def test_the_hash_is_the_plain_one(seed: int, stream: Stream, counter: int, tokens: list[int]) -> None:
    bits = uniform_bits(noise_keys(seed, stream, [counter]), torch.tensor(tokens, dtype=torch.int32))
    assert bits[0].tolist() == [plain_bits(seed, stream, counter, token) for token in tokens]


@given(seed=SEEDS, counters=st.lists(st.integers(0, 2**20), min_size=1, max_size=9), vocab=st.integers(1, 300))
@settings(max_examples=50, deadline=None)
def test_noise_is_the_same_for_one_row_or_many_and_for_a_pruned_vocabulary(
    seed: int, counters: list[int], vocab: int
) -> None:
    rows = exponential(noise_keys(seed, Stream.TARGET, counters), ids(vocab))
    for row, counter in zip(rows, counters, strict=True):
        assert torch.equal(row, exponential(noise_keys(seed, Stream.TARGET, [counter]), ids(vocab))[0])
    kept = random_ids(seed, 1 + vocab // 3, vocab)
    assert torch.equal(rows[:, kept], exponential(noise_keys(seed, Stream.TARGET, counters), ids(vocab)[kept]))


def test_keys_are_equal_only_for_equal_seed_stream_and_counter() -> None:
    seeds = [*range(-8, 25), 2**31, 2**32, 2**63 - 1, -(2**63), 0x9E3779B97F4A7C15 >> 1]
    counters = [*range(1500), *(r << 8 | i for r in range(6, 120) for i in range(16)), *range(10**6, 10**6 + 50)]
    keys = [key for seed in seeds for stream in Stream for key in noise_keys(seed, stream, counters)]
    assert len(set(keys)) == len(keys) == len(seeds) * len(Stream) * len(counters)


def grid(kind: str) -> np.ndarray:
    """About a million uniforms [n, m], neighbours along the second axis: ids, positions, seeds, streams or drafts."""
    if kind == "ids":
        return uniform(noise_keys(1, Stream.TARGET, range(32)), ids(1 << 15)).numpy()
    if kind == "positions":
        return uniform(noise_keys(2, Stream.TARGET, range(1 << 15)), ids(32)).T.numpy()
    if kind == "seeds":
        keys = [key for seed in range(1 << 15) for key in noise_keys(seed, Stream.TARGET, [7])]
        return uniform(keys, ids(32)).T.numpy()
    if kind == "streams":
        keys = [key for c in range(1 << 13) for stream in Stream for key in noise_keys(3, stream, [c])]
        return uniform(keys, ids(32)).T.numpy()
    keys = noise_keys(4, Stream.DRAFT, [r << 8 | i for r in range(1 << 11) for i in range(16)])
    return uniform(keys, ids(32)).T.numpy()


KINDS = ["ids", "positions", "seeds", "streams", "drafts"]


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_uniform_and_its_neighbours_are_independent(kind: str) -> None:
    u = grid(kind)
    assert u.min() > 0 and u.max() < 1
    assert_follows(np.bincount((u * 1024).astype(int).ravel(), minlength=1024), np.full(1024, 1 / 1024), "uniform")
    for lag in (1, 2, 3, 16):
        a, b = u[:, :-lag].ravel(), u[:, lag:].ravel()
        pairs = (a * 32).astype(int) * 32 + (b * 32).astype(int)
        assert_follows(np.bincount(pairs, minlength=1024), np.full(1024, 1 / 1024), f"pairs at lag {lag}")
        assert_mean((a - 0.5) * (b - 0.5) * 12, 0, f"serial correlation at lag {lag}")
    across = (u[:-1] * 32).astype(int) * 32 + (u[1:] * 32).astype(int)
    assert_follows(np.bincount(across.ravel(), minlength=1024), np.full(1024, 1 / 1024), "pairs across")


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_numbers_are_as_rare_as_they_should_be(kind: str) -> None:
    """They decide whether unlikely tokens are drawn as often as they should be."""
    u = grid(kind).ravel()
    edges = np.array([0, *(2.0**-e for e in range(20, -1, -1))])
    assert_follows(np.histogram(u, edges)[0], np.diff(edges))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(top_p=0.95),
        SamplingParams(top_p=0.3),
        SamplingParams(top_k=40),
        SamplingParams(min_p=0.05),
        SamplingParams(top_k=900, top_p=0.9, min_p=0.01),
        SamplingParams(top_k=100_000),
    ],
    ids=str,
)
@pytest.mark.parametrize("flatness", [0.3, 1.0, 4.0])
def test_a_row_on_a_cpu_keeps_what_a_device_keeps(params: SamplingParams, flatness: float) -> None:
    """From a peak to a row of which the likeliest thousands are needed."""
    logits = 4 / flatness * torch.randn(3, 49_152, generator=torch.Generator().manual_seed(5))
    p = logits.softmax(-1)
    whole = truncate(p, params)
    for row, expected in zip(p.numpy(), whole.numpy(), strict=True):
        kept = row.copy()
        places, mass = truncate_row(kept, params)
        assert places is None or set(np.flatnonzero(kept)) <= set(places)
        np.testing.assert_allclose(kept[kept > 0] * mass, row[kept > 0], rtol=1e-5)
        assert ((kept > 0) != (expected > 0)).sum() <= 5  # of thousands, by the rounding of their running sum
        np.testing.assert_allclose(kept, expected, atol=1e-5)


@pytest.mark.parametrize("kept", [1.0, 0.5, 0.01, 0.0])
def test_a_draw_looks_only_at_what_weighs_something_and_is_the_draw_from_all(kept: float) -> None:
    """One row alone and among six, many ids or few: the winner of the whole race."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(6, 49_152, generator=generator) * (torch.rand(6, 49_152, generator=generator) < kept)
    weights[:, 7] = 1.0
    whole = race_winner(weights, exponential(noise_keys(3, Stream.TARGET, range(6)), ids(49_152)))
    one = Sampler(SamplingParams(temperature=1.0, seed=3), 49_152, CPU, ids(1).long())
    assert [one.draw(weights[row], Stream.TARGET, row) for row in range(6)] == whole.tolist()


def test_exponential_noise_is_exponential() -> None:
    e = exponential(noise_keys(5, Stream.RESIDUAL, range(32)), ids(1 << 15)).double().numpy().ravel()
    assert np.isfinite(e).all() and (e > 0).all()
    edges = stats.expon.ppf(np.linspace(0, 1, 513))
    assert_follows(np.histogram(e, edges)[0], np.full(512, 1 / 512))
    assert_mean(e, 1)
    assert_mean((e - 1) ** 2, 1)


def test_an_exponential_race_draws_from_its_weights() -> None:
    weights = torch.tensor([5e-4, 0.3, 0.0, 0.02, 0.6795])
    noise = exponential(noise_keys(6, Stream.TARGET, range(200_000)), ids(5))
    for scale in (1, 7.5):
        counts = np.bincount(race_winner(scale * weights, noise).numpy(), minlength=5)
        assert_follows(counts, weights.double().numpy())


def test_successive_draws_of_a_race_are_independent() -> None:
    p = torch.tensor([0.5, 0.3, 0.2])
    x = race_winner(p, exponential(noise_keys(8, Stream.TARGET, range(300_000)), ids(3))).numpy()
    pairs = np.bincount(x[:-1] * 3 + x[1:], minlength=9)
    assert_follows(pairs[:9], np.outer(p, p).ravel().astype(float))


def test_the_uniforms_that_judge_a_draft_differ_by_round_and_place() -> None:
    lane = sampler(SamplingParams(seed=3), 50, NOTHING)
    rounds = torch.stack([lane.uniforms(Stream.ACCEPT, r, 16) for r in range(5000)]).numpy()
    assert len(np.unique(rounds)) > 0.98 * rounds.size  # 24 bits repeat now and then
    assert_follows(np.bincount((rounds * 256).astype(int).ravel(), minlength=256), np.full(256, 1 / 256))
    assert_mean((rounds[:, :-1] - 0.5).ravel() * (rounds[:, 1:] - 0.5).ravel() * 12, 0)
    assert_mean((rounds[:-1] - 0.5).ravel() * (rounds[1:] - 0.5).ravel() * 12, 0)
