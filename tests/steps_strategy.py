"""Hypothesis strategies for what decoders yield: Steps as a real lane could make them, and Traces with any floats."""

from __future__ import annotations

from hypothesis import strategies as st

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Drafted, Origin, Rule, Step, Stop, Token, Trace, Verdict, Why

IDS = st.integers(0, 200_000)
SECONDS = st.floats(1e-6, 10)
ANY_FLOAT = st.none() | st.floats()


@st.composite
def speculative_step(draw: st.DrawFn, gamma: int, cut: bool = False) -> Step:
    """One round: k <= γ drafted, some accepted, then the target's own token; `cut` drops tokens off its end."""
    k = draw(st.integers(0, gamma))
    ids = draw(st.lists(IDS, min_size=k + 1, max_size=k + 1))
    accepted = draw(st.integers(0, k))
    verdicts = [Verdict.ACCEPTED] * accepted + [Verdict.REFUSED] * (accepted < k)
    verdicts += [Verdict.UNREACHED] * (k - len(verdicts))
    own = Origin.TARGET if k == 0 else Origin.BONUS if accepted == k else Origin.CORRECTED
    tokens = [Token(i, Origin.ACCEPTED) for i in ids[:accepted]] + [Token(ids[k], own)]
    keep = draw(st.integers(0, len(tokens))) if cut else len(tokens)
    draft, verify, other = draw(st.tuples(SECONDS, SECONDS, SECONDS))
    return Step(
        tokens=tuple(tokens[:keep]),
        drafted=tuple(Drafted(i, verdict) for i, verdict in zip(ids[:k], verdicts, strict=True)),
        gamma=gamma,
        why=Why.POLICY,
        draft_seconds=draft,
        verify_seconds=verify,
        other_seconds=other,
        stop=Stop.EOS if cut else None,
    )


@st.composite
def lane_steps(draw: st.DrawFn, fixed_gamma: bool = False) -> list[Step]:
    """A whole lane: the prompt's step, then rounds; the last of them may be cut by an end of text."""
    seconds = draw(SECONDS)
    first = (Token(draw(IDS), Origin.TARGET),)
    steps = [Step(first, why=Why.PREFILL, draft_seconds=0.0, verify_seconds=seconds, other_seconds=0.0)]
    gamma = draw(st.integers(0, 16))
    rounds = draw(st.integers(0, 12))
    for i in range(rounds):
        gamma = gamma if fixed_gamma else draw(st.integers(0, 16))
        steps.append(draw(speculative_step(gamma, cut=i == rounds - 1 and draw(st.booleans()))))
    return steps


@st.composite
def traces(draw: st.DrawFn, lane: str) -> Trace:
    """Any trace of a lane, every float possible: what a file must bring back."""
    token = st.builds(Token, IDS, st.sampled_from(Origin), ANY_FLOAT, ANY_FLOAT, ANY_FLOAT)
    drafted = st.builds(Drafted, IDS, st.sampled_from(Verdict), *[ANY_FLOAT] * 4, st.none() | IDS)
    step = st.builds(
        Step,
        tokens=st.lists(token, max_size=3).map(tuple),
        drafted=st.lists(drafted, max_size=3).map(tuple),
        gamma=st.integers(0, 16),
        why=st.sampled_from(Why),
        kv_length=st.integers(0, 10_000),
        draft_seconds=ANY_FLOAT,
        verify_seconds=ANY_FLOAT,
        other_seconds=ANY_FLOAT,
        residual_top=st.lists(st.tuples(IDS, st.floats()), max_size=2).map(tuple),
        residual_mass=ANY_FLOAT,
        stop=st.none() | st.sampled_from(Stop),
    )
    steps = tuple(draw(st.lists(step, max_size=3)))
    tokens = sum(len(step.tokens) for step in steps)
    facts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
    return Trace(
        lane=lane,
        prompt_ids=tuple(draw(st.lists(IDS, max_size=4))),
        params=draw(
            st.builds(SamplingParams, temperature=st.floats(), seed=st.integers(), draft_temperature=ANY_FLOAT)
        ),
        rule=draw(st.sampled_from(Rule)),
        steps=steps,
        texts=tuple(draw(st.just([]) | st.lists(st.text(max_size=4), min_size=tokens, max_size=tokens))),
        spellings=draw(st.dictionaries(IDS, st.text(max_size=4), max_size=2)),
        pair=draw(facts),
        environment=draw(facts),
        row=draw(st.integers(0, 8)),
    )
