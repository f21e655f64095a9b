"""What holds for every Step and every Trace of real runs, whatever the prompt, sampling, rule and draft lengths."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.draft_length import policy
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Drafted, DraftLength, Origin, Rule, Step, Trace, Verdict, Why
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from tests.tables import CPU, ChainRunner, Tables
from tests.threads import one_thread  # noqa: F401

VOCAB = 12
UNASKED = (Why.PREFILL, Why.PLAIN, Why.INTERVAL, Why.CALIBRATION, Why.DOES_NOT_PAY, Why.FALLBACK)
G = torch.Generator().manual_seed(0)
CHAIN = Tables((torch.zeros(1, VOCAB), 2 * torch.randn(VOCAB, VOCAB, generator=G)))
DRAFT = CHAIN.like(0.8)

PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([0, 5]),
    top_p=st.sampled_from([1.0, 0.9]),
    min_p=st.sampled_from([0.0, 0.05]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    seed=st.integers(-(2**63), 2**63 - 1),
    draft_temperature=st.sampled_from([None, None, 0.0, 0.5, 1.4]),
)
PROMPTS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)
LIMITS = st.builds(
    Limits, st.integers(1, 40), st.integers(13, 60), st.frozensets(st.integers(0, VOCAB - 1), max_size=1)
)


@st.composite
def runs(draw: st.DrawFn) -> Trace:
    """A speculative lane's whole run."""
    prompt, params, rule = tuple(draw(PROMPTS)), draw(PARAMS), draw(st.sampled_from(Rule))
    drafter = draw(st.sampled_from([NgramDrafter(CPU, 3, 1), ModelDrafter(ChainRunner(DRAFT))]))
    limits = draw(LIMITS)
    length = policy(draw(st.sampled_from(DraftLength)), draw(st.integers(0, 16)))
    steps = speculative(ChainRunner(CHAIN), drafter, prompt, params, rule, length, Ending(limits, len(prompt)))
    return Trace("speculative", prompt, params, rule, tuple(steps))


def uncut(step: Step) -> int:
    return step.accepted + 1


@settings(max_examples=250, deadline=None)
@given(trace=runs())
def test_every_run_keeps_the_books(trace: Trace) -> None:
    steps, last = trace.steps, trace.steps[-1]
    accepted, cut = sum(s.accepted for s in steps), uncut(last) - len(last.tokens)
    assert len(trace.tokens) == accepted + len(steps) - cut
    assert cut >= 0 and (cut == 0 or last.stop)
    assert all(step.stop is None for step in steps[:-1]) and trace.stop_reason is not None
    held = len(trace.prompt_ids) - 1
    for step in steps:
        held += uncut(step)
        assert step.accepted <= step.judged <= len(step.drafted) <= step.gamma
        assert step.kv_length == held, "prompt and output, less the last token"
        assert_origins_agree_with_verdicts(step)
        assert_probabilities(step, trace.params, trace.rule)
        assert_times(step)
    assert pickle.loads(pickle.dumps(trace)) == trace


def assert_origins_agree_with_verdicts(step: Step) -> None:
    """Accepted ones first and by id, then at most one refused, then the unreached; the target's token says which."""
    n, k = step.accepted, len(step.drafted)
    refused = [Verdict.REFUSED][: k - n]
    assert [d.verdict for d in step.drafted] == [Verdict.ACCEPTED] * n + refused + [Verdict.UNREACHED] * (k - n - 1)
    own = Origin.TARGET if not k else Origin.BONUS if n == k else Origin.CORRECTED
    origins = [Origin.ACCEPTED] * n + [own]
    assert [t.origin for t in step.tokens] == origins[: len(step.tokens)]
    ids = [t.id for t in step.tokens][:n]
    assert ids == [d.id for d in step.drafted][: len(ids)]
    assert all(d.parent is None for d in step.drafted)
    assert (step.why in UNASKED) <= (k == step.gamma == 0)
    assert (step.why in (Why.POLICY, Why.PROBE)) <= (k == step.gamma > 0)
    assert (step.why in (Why.NO_MATCH, Why.UNSURE)) <= (k < step.gamma)


def assert_probabilities(step: Step, params: SamplingParams, rule: Rule) -> None:
    for token in step.tokens:
        assert 0 < token.p <= 1 + 1e-6 and 0 < token.p_raw <= 1 + 1e-6
        assert (token.q is not None) == (token.origin is Origin.ACCEPTED)
        if params.temperature == 0:
            assert token.p == 1
    for drafted, token in zip(step.drafted[: step.accepted], step.tokens, strict=False):
        assert (drafted.q, drafted.p) == (token.q, token.p)
    assert all(0 < drafted.q <= 1 + 1e-6 for drafted in step.drafted)
    for drafted in known(step, rule):
        assert 0 <= drafted.p <= 1 + 1e-6 and drafted.draw is not None
    for drafted in step.drafted[len(known(step, rule)) :]:
        assert (drafted.p, drafted.draw, drafted.chance) == (None, None, None)


def known(step: Step, rule: Rule) -> tuple[Drafted, ...]:
    """Those that were judged: under block all of them, else up to the first refusal."""
    return step.drafted if rule is Rule.BLOCK else step.drafted[: step.judged]


def assert_times(step: Step) -> None:
    times = step.draft_seconds, step.verify_seconds, step.other_seconds
    assert min(times) >= 0 and step.seconds == pytest.approx(sum(times))
    assert step.verify_seconds > 0


@settings(max_examples=100, deadline=None)
@given(trace=runs())
def test_a_verdict_follows_from_the_draw_that_it_shows(trace: Trace) -> None:
    """What the page shows of a judgement is what the judgement was made of; block takes the longest that passes."""
    for step in trace.steps:
        if trace.rule is Rule.BLOCK:
            passing = [i for i, d in enumerate(step.drafted, start=1) if d.draw < d.chance]
            assert step.accepted == max(passing, default=0)
            continue
        for d in known(step, trace.rule):
            shared = trace.rule is Rule.SHARED_NOISE
            passed = d.draw == d.id if shared else d.draw * d.q < d.p * (1 + 1e-6)
            assert passed == (d.verdict is Verdict.ACCEPTED)


@settings(max_examples=100, deadline=None)
@given(trace=runs())
def test_the_residual_is_what_the_targets_own_token_was_drawn_from(trace: Trace) -> None:
    """Where draws are uniform numbers: after a refusal what q leaves of p, else p itself."""
    for step in trace.steps:
        if trace.rule is Rule.SHARED_NOISE or not step.drafted:
            assert (step.residual_top, step.residual_mass) == ((), None)
            assert all(d.chance is None for d in step.drafted)
            continue
        assert all(0 <= d.chance <= 1 + 1e-6 for d in known(step, trace.rule))
        if trace.rule is Rule.REJECTION:
            assert all(d.chance == min(1.0, d.p / d.q) for d in known(step, trace.rule))
        refused = step.judged > step.accepted
        assert (step.residual_mass is not None) == refused
        assert not refused or 0 < step.residual_mass <= 1 + 1e-5
        if len(step.tokens) <= step.accepted:
            assert step.residual_top == ()
            continue
        weights = dict(step.residual_top)
        assert list(weights.values()) == sorted(weights.values(), reverse=True) and sum(weights.values()) <= 1 + 1e-5
        own = step.tokens[-1]
        assert own.id in weights or len(weights) == 5
        if not refused and own.id in weights:
            assert weights[own.id] == pytest.approx(own.p, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(prompt=PROMPTS, params=PARAMS, limits=LIMITS)
def test_the_baselines_steps_are_single_tokens_of_the_target(
    prompt: list[int], params: SamplingParams, limits: Limits
) -> None:
    steps = list(autoregressive(ChainRunner(CHAIN), prompt, params, Ending(limits, len(prompt))))
    for i, step in enumerate(steps):
        assert [t.origin for t in step.tokens] == [Origin.TARGET]
        assert step.why is (Why.PLAIN if i else Why.PREFILL)
        assert step.kv_length == len(prompt) + i and step.draft_seconds == 0
        assert_probabilities(step, params, Rule.SHARED_NOISE)
        assert_times(step)
        assert (step.stop is not None) == (i == len(steps) - 1)


@settings(max_examples=60, deadline=None)
@given(trace=runs())
def test_under_shared_noise_and_greedy_the_baseline_writes_the_same(trace: Trace) -> None:
    """Over tables there is no rounding: no excuse is needed. Cut both to the shorter, as their limits differ."""
    if trace.rule is not Rule.SHARED_NOISE and trace.params.temperature:
        return
    n = len(trace.tokens)
    ending = Ending(Limits(n, 1000), len(trace.prompt_ids))
    baseline = [s.tokens[0].id for s in autoregressive(ChainRunner(CHAIN), trace.prompt_ids, trace.params, ending)]
    assert list(trace.token_ids) == baseline


def test_the_prompts_forward_is_a_step_that_drafted_nothing() -> None:
    drafter = ModelDrafter(ChainRunner(DRAFT))
    ending = Ending(Limits(9, 99), 2)
    first = next(speculative(ChainRunner(CHAIN), drafter, (1, 2), SamplingParams(), Rule.BLOCK, 4, ending))
    assert (first.why, first.drafted, first.kv_length) == (Why.PREFILL, (), 2)
    assert len(first.tokens) == 1 and first.draft_seconds > 0, "the draft's prefill is on the speculative lane's clock"
