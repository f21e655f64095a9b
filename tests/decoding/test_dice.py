"""A CPU judges the rows that are reached, a device all: to the bit the same. And the draws of a pruned vocabulary."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdemo.decoding.dice import Dice
from specdemo.decoding.drafter import Draft, Pruned
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.policy import Fixed
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Rule
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401

VOCAB = 1200

PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.5, 1.0]),
    top_p=st.sampled_from([1.0, 0.9, 0.3]),
    top_k=st.sampled_from([0, 50]),
    min_p=st.sampled_from([0.0, 0.05]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    draft_temperature=st.sampled_from([None, 0.0, 0.7]),
    seed=st.integers(0, 1 << 40),
)


def dice(params: SamplingParams, rule: Rule) -> Dice:
    made = Dice(Sampler(params, VOCAB, CPU, torch.tensor([3, 5])), rule, Fixed(1))
    made.start(position=7)
    return made


def some_logits(seed: int, rows: int, width: int = VOCAB) -> torch.Tensor:
    return 3 * torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=150, deadline=None)
@given(
    params=PARAMS,
    rule=st.sampled_from([Rule.SHARED_NOISE, Rule.REJECTION]),
    seed=st.integers(0, 1 << 30),
    k=st.integers(0, 6),
    like=st.floats(0, 1),
    one_hot=st.booleans(),
)
def test_judged_row_by_row_and_all_at_once_a_draft_fares_the_same(
    params: SamplingParams, rule: Rule, seed: int, k: int, like: float, one_hot: bool
) -> None:
    """Whatever the draft is worth: from the target's own distribution to one that has nothing to do with it."""
    logits = some_logits(seed, k + 1)
    other = like * logits + (1 - like) * some_logits(seed + 1, k + 1)
    lane = dice(params, rule)
    tokens, qs = [], []
    for i in range(k):
        token, q = lane(other[i], tokens)
        tokens.append(token)
        qs.append(q)
    draft = Draft.of(tokens, qs, CPU)
    if one_hot:
        draft = Draft(draft.ids)
    judged, at_once = lane.judge(logits, draft), lane._at_once(logits, draft)
    reached = at_once.accepted + 1
    for name in ("accepted", "drafts", "q"):
        assert getattr(judged, name) == getattr(at_once, name)
    for name in ("ids", "p", "draws"):
        assert getattr(judged, name) == getattr(at_once, name)[:reached]
    assert judged.drafted_p == at_once.drafted_p[:reached]
    assert judged.raw == pytest.approx(at_once.raw[:reached], rel=1e-5)
    assert (judged.source is None) == (at_once.source is None)
    if judged.source is not None:
        assert torch.equal(judged.source, at_once.source)


@settings(max_examples=60, deadline=None)
@given(params=PARAMS, rule=st.sampled_from(Rule), seed=st.integers(0, 1 << 30))
def test_a_draw_among_a_pruned_vocabulary_is_the_draw_from_the_whole_one(
    params: SamplingParams, rule: Rule, seed: int
) -> None:
    """What is left out weighs nothing: the same token, the same q."""
    ids = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(seed))[:300].sort().values
    among = Pruned(ids, VOCAB)
    logits = some_logits(seed, 1, len(ids))[0]
    token, q = dice(params, rule)(logits, [torch.tensor(9)], among)
    same, whole = dice(params, rule)(among.whole(logits), [torch.tensor(9)])
    assert token == same
    torch.testing.assert_close(q, whole, rtol=1e-5, atol=0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", [Rule.SHARED_NOISE, Rule.REJECTION])
def test_behind_a_refusal_nothing_is_worked_out(rule: Rule, temperature: float) -> None:
    """A row that is no number, behind the refused one, stays unseen."""
    logits = some_logits(0, 3)
    logits[2] = torch.nan
    impossible = logits[0].argmin()[None]
    draft = Draft(impossible.repeat(2))
    judged = dice(SamplingParams(temperature=temperature, top_k=5), rule).judge(logits, draft)
    assert judged.accepted == 0
    assert all(len(one) == 1 and math.isfinite(one[0]) for one in (judged.p, judged.raw, judged.drafted_p))
