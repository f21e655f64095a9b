"""Each rule emits the target's own law, exactly, and accepts as often as theory says: 200,000 rounds a case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Rule
from tests.chisquare import assert_follows
from tests.rounds import JUDGES, Judge, Round, one_hot_levels, run
from tests.tables import Tables, joint, processed, reference, tables
from tests.threads import one_thread  # noqa: F401

PLAIN = SamplingParams(temperature=1.0)
PROCESSORS = {
    "temperature": SamplingParams(temperature=0.6),
    "top-k": SamplingParams(temperature=1.0, top_k=3),
    "top-p": SamplingParams(temperature=1.2, top_p=0.8),
    "min-p": SamplingParams(temperature=1.0, min_p=0.25),
    "penalty": SamplingParams(temperature=1.0, repetition_penalty=1.6),
    "cold draft": SamplingParams(temperature=1.0, draft_temperature=0.5),
    "hot draft": SamplingParams(temperature=0.8, top_p=0.9, draft_temperature=1.7),
    "greedy draft": SamplingParams(temperature=1.0, draft_temperature=0.0),
    "all": SamplingParams(
        temperature=1.4, top_k=4, top_p=0.95, min_p=0.05, repetition_penalty=0.7, draft_temperature=0.9
    ),
}
VOCAB = {1: 6, 2: 6, 3: 5, 4: 4, 5: 4}


def pair_of_tables(gamma: int, seed: int = 0) -> tuple[Tables, Tables]:
    target = tables(VOCAB[gamma], gamma + 1, seed=101 * gamma + seed)
    return target, target.like(noise=0.9, seed=seed + 1)


def counts_of(sequences: np.ndarray, cells: int) -> np.ndarray:
    return np.bincount(sequences, minlength=cells)


# --- The law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("gamma", range(1, 6))
def test_what_is_emitted_follows_the_targets_joint_law(rule: Rule, gamma: int) -> None:
    target, draft = pair_of_tables(gamma)
    out = run(JUDGES[rule], processed(target, PLAIN), processed(draft, PLAIN, draft=True), gamma, seed=gamma)
    law = joint(reference(target, PLAIN))
    assert 0.3 < out.accepted.mean() / gamma < 0.9
    assert_follows(counts_of(out.sequences, law.size), law)


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("name", PROCESSORS)
def test_so_it_does_under_every_processor(rule: Rule, name: str) -> None:
    params, gamma = PROCESSORS[name], 2 + (len(name) % 2)
    target, draft = pair_of_tables(gamma, seed=7)
    out = run(JUDGES[rule], processed(target, params), processed(draft, params, draft=True), gamma, seed=11)
    law = joint(reference(target, params))
    assert_follows(counts_of(out.sequences, law.size), law)


@pytest.mark.parametrize("rule", [Rule.REJECTION, Rule.BLOCK])
def test_a_draft_whose_support_is_not_the_targets_changes_nothing(rule: Rule) -> None:
    """Half of q's tokens have p = 0, and half of p's have q = 0."""
    target, draft = pair_of_tables(2)
    p = processed(target, SamplingParams(temperature=1.0, top_k=4))
    q = processed(replace(draft, levels=tuple(-x for x in draft.levels)), SamplingParams(temperature=1.0, top_k=3))
    out = run(JUDGES[rule], p, q, 2)
    law = joint(reference(target, SamplingParams(temperature=1.0, top_k=4)))
    assert_follows(counts_of(out.sequences, law.size), law)


@pytest.mark.parametrize("rule", Rule)
def test_a_draft_that_is_the_target_is_always_accepted_and_followed_by_a_bonus(rule: Rule) -> None:
    target, _ = pair_of_tables(3)
    p = processed(target, PLAIN)
    out = run(JUDGES[rule], p, p, 3)
    assert (out.accepted == 3).all()
    law = joint(reference(target, PLAIN))
    assert_follows(counts_of(out.sequences, law.size), law)


@pytest.mark.parametrize("rule", Rule)
def test_a_draft_that_the_target_cannot_write_is_always_refused(rule: Rule) -> None:
    p, q = torch.tensor([[[0.5, 0.5, 0, 0]] * 2] * 1000), torch.tensor([[[0, 0, 0.5, 0.5]]] * 1000)
    drafted = torch.full((1000, 1), 2)
    judged = JUDGES[rule](Round(p, q, drafted, torch.rand(1000, 1), torch.rand(1000, 2, 4), torch.rand(1000, 4)))
    assert (judged.accepted == 0).all() and (judged.token < 2).all()


def test_a_greedy_target_accepts_its_own_choice_and_nothing_else() -> None:
    greedy = SamplingParams()
    target, draft = pair_of_tables(3)
    p, q = processed(target, greedy), processed(draft, replace(greedy, draft_temperature=1.0), draft=True)
    law = joint(reference(target, greedy))
    for judge in JUDGES.values():
        assert (run(judge, p, q, 3, rounds=5000).sequences == law.argmax()).all()


def test_a_residual_without_mass_falls_back_to_the_target() -> None:
    """Rounding can refuse a draft where p = q to the last bit but one; max(p - q, 0) may then be 0 everywhere."""
    p = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]] * 1000)
    q = torch.tensor([[[0.25 + 1e-7, 0.75]]] * 1000)
    for rule in (Rule.REJECTION, Rule.BLOCK):
        round_ = Round(p, q, torch.zeros(1000, 1, dtype=torch.long), torch.full((1000, 1), 1.0), q, torch.rand(1000, 2))
        judged = JUDGES[rule](round_)
        assert (judged.accepted == 0).all()
        assert 50 < judged.token.sum() < 950  # drawn from p, both tokens


# --- How often they accept -------------------------------------------------------------------------------------------


def expected_lengths(p: list[np.ndarray], q: list[np.ndarray], gamma: int) -> dict[Rule, np.ndarray]:
    """P(accepted >= i), i = 1 .. γ, by enumeration of every draft.

    Given the draft, rejection accepts i tokens with probability Π min(1, p/q), and block with the weight
    w_i = min(1, w_{i-1} p/q) (Sun et al. 2024, the lemma behind their theorem 1).
    """
    law, token_wise, weight = np.ones(1), np.ones(1), np.ones(1)
    rejection, block = [], []
    for depth in range(gamma):
        ratio = p[depth] / q[depth]
        law = (law[:, None] * q[depth]).ravel()
        token_wise = (token_wise[:, None] * np.minimum(1, ratio)).ravel()
        weight = np.minimum(1, weight[:, None] * ratio).ravel()
        rejection.append((law * token_wise).sum())
        block.append((law * weight).sum())
    return {Rule.REJECTION: np.array(rejection), Rule.BLOCK: np.array(block)}


@pytest.mark.parametrize("gamma", range(1, 6))
def test_rejection_and_block_accept_as_theory_says_and_block_never_less(gamma: int) -> None:
    target, draft = pair_of_tables(gamma, seed=3)
    theory = expected_lengths(reference(target, PLAIN), reference(draft, PLAIN), gamma)
    assert (theory[Rule.BLOCK] >= theory[Rule.REJECTION] - 1e-12).all()
    if gamma > 1:
        assert theory[Rule.BLOCK].sum() > 1.005 * theory[Rule.REJECTION].sum()
    for rule, at_least in theory.items():
        out = run(JUDGES[rule], processed(target, PLAIN), processed(draft, PLAIN), gamma, seed=20 + gamma)
        law = -np.diff([1, *at_least, 0])
        assert_follows(np.bincount(out.accepted, minlength=gamma + 1), law, rule)


@pytest.mark.parametrize("params", [PLAIN, *PROCESSORS.values()])
def test_rejection_accepts_a_judged_token_with_probability_1_minus_tv(params: SamplingParams) -> None:
    target, draft = pair_of_tables(1, seed=5)
    p = reference(target, params)[0][0]
    q = reference(draft, params, params.draft_temperature)[0][0]
    out = run(JUDGES[Rule.REJECTION], processed(target, params), processed(draft, params, draft=True), 1)
    overlap = np.minimum(p, q).sum()
    assert overlap == pytest.approx(1 - abs(p - q).sum() / 2)
    assert_follows(np.bincount(out.accepted, minlength=2), np.array([1 - overlap, overlap]))


def test_shared_noise_accepts_a_little_less_never_under_its_bound() -> None:
    """(1 - TV) / (1 + TV) <= acceptance <= 1 - TV (Daliri, Musco, Suresh 2024)."""
    for seed in range(4):
        target, draft = pair_of_tables(1, seed=seed)
        p, q = reference(target, PLAIN)[0][0], reference(draft, PLAIN)[0][0]
        tv = abs(p - q).sum() / 2
        out = run(JUDGES[Rule.SHARED_NOISE], processed(target, PLAIN), processed(draft, PLAIN), 1, seed)
        assert (1 - tv) / (1 + tv) - 0.01 < out.accepted.mean() < 1 - tv + 0.005
        same = 1 / np.maximum(p[:, None] / p[None], q[:, None] / q[None]).sum(0)  # both races are won by the same token
        assert_follows(np.bincount(out.accepted, minlength=2), np.array([1 - same.sum(), same.sum()]))


@pytest.mark.parametrize("gamma", [1, 4])
def test_the_three_rules_accept_a_one_hot_draft_alike(gamma: int) -> None:
    """A draft that is certain is accepted with the target's own probability of it, whatever the rule."""
    target, draft = pair_of_tables(gamma, seed=9)
    p = processed(target, PLAIN)
    q = one_hot_levels(list(draft.levels))
    exact, row, at_least = [level.numpy() for level in p], 0, [1.0]
    for depth in range(gamma):
        token = int(q[depth][row].argmax())
        at_least.append(at_least[-1] * float(exact[depth][row, token]))
        row = row * target.vocab_size + token
    law = joint(reference(target, PLAIN))
    for rule, judge in JUDGES.items():
        out = run(judge, p, q, gamma, seed=gamma)
        assert_follows(np.bincount(out.accepted, minlength=gamma + 1), -np.diff([*at_least, 0.0]), rule)
        assert_follows(counts_of(out.sequences, law.size), law, rule)


# --- Shape -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", Rule)
def test_a_sequence_is_judged_alike_alone_and_in_a_batch(rule: Rule) -> None:
    target, draft = pair_of_tables(3)
    g = torch.Generator().manual_seed(0)
    b = 64
    p = torch.stack([level[torch.randint(len(level), (b,), generator=g)] for level in processed(target, PLAIN)], 1)
    q = torch.stack([level[torch.randint(len(level), (b,), generator=g)] for level in processed(draft, PLAIN)[:3]], 1)
    drafted = torch.randint(target.vocab_size, (b, 3), generator=g)
    vocab = target.vocab_size
    whole = Round(p, q, drafted, torch.rand(b, 3), torch.rand(b, 4, vocab), torch.rand(b, vocab))
    judged = JUDGES[rule](whole)
    for i in range(b):
        alone = JUDGES[rule](Round(*(x[i : i + 1] for x in vars(whole).values())))
        assert alone.accepted.item() == judged.accepted[i] and alone.token.item() == judged.token[i]
        assert torch.equal(alone.draws[0], judged.draws[i])


def test_draws_are_what_a_draft_was_judged_with() -> None:
    target, draft = pair_of_tables(2)
    seen: list[tuple[Round, object]] = []

    def spy(rule: Rule) -> Judge:
        def judge(r: Round) -> object:
            seen.append((r, JUDGES[rule](r)))
            return seen[-1][1]

        return judge

    for rule in Rule:
        run(spy(rule), processed(target, PLAIN), processed(draft, PLAIN), 2, rounds=500)
        r, judged = seen[-1]
        if rule is Rule.SHARED_NOISE:
            assert torch.equal(judged.accepted, (judged.draws == r.drafted).long().cumprod(1).sum(1))
        else:
            assert torch.equal(judged.draws, r.uniforms)
