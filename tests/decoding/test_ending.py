"""Both lanes end by one rule, at the same token: end of text, stop string, budget, context; faults are sentences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.drafter import Draft, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.faults import DecodingFault
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Output
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Origin, Rule, Step, Stop, Verdict, Why
from specdemo.drafters.model import ModelDrafter
from tests.tables import ChainRunner, Tables
from tests.threads import one_thread  # noqa: F401

VOCAB = 40
COUNTING = Tables((torch.zeros(1, VOCAB), 9 * torch.eye(VOCAB).roll(1, 1)))  # greedy: after n comes n + 1
GREEDY = SamplingParams()


class Scripted:
    """Proposes the right continuation, except that from `wrong` on every token is off; at most `most` tokens."""

    aux_layers: tuple[int, ...] = ()
    max_length = 1 << 20

    def __init__(self, wrong: int = VOCAB, most: int = 16) -> None:
        self.wrong, self.most = wrong, most
        self.last = 0
        self.asked: list[int] = []

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        self.last, self.asked = first, []

    def propose(self, gamma: int, draw: Draw) -> Draft:
        self.asked.append(gamma)
        right = range(self.last + 1, self.last + 1 + min(gamma, self.most))
        ids = [i % VOCAB if i < self.wrong else (i + 5) % VOCAB for i in right]
        return Draft(torch.tensor(ids, dtype=torch.long))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self.last = tokens[-1]


def run(
    limits: Limits,
    gamma: int = 4,
    drafter: object = None,
    rule: Rule = Rule.SHARED_NOISE,
    stopper: object = None,
    prompt: tuple[int, ...] = (0,),
) -> list[Step]:
    ending = Ending(limits, len(prompt), stopper() if stopper else None)
    return list(speculative(ChainRunner(COUNTING), drafter or Scripted(), prompt, GREEDY, rule, gamma, ending))


def plain(limits: Limits, stopper: object = None, prompt: tuple[int, ...] = (0,)) -> list[Step]:
    ending = Ending(limits, len(prompt), stopper() if stopper else None)
    return list(autoregressive(ChainRunner(COUNTING), prompt, GREEDY, ending))


def ids_of(steps: list[Step]) -> list[int]:
    return [token.id for step in steps for token in step.tokens]


# Prefill emits 1; with γ = 4 the rounds emit 2-6, 7-11, ...
@pytest.mark.parametrize(
    ("eos", "origin"),
    [(1, Origin.TARGET), (2, Origin.ACCEPTED), (4, Origin.ACCEPTED), (5, Origin.ACCEPTED), (6, Origin.BONUS)],
    ids=["in the prefill", "first of a draft", "inside a draft", "last of a draft", "the bonus"],
)
@pytest.mark.parametrize("rule", Rule)
def test_an_end_of_text_ends_the_lane_wherever_it_stands(eos: int, origin: Origin, rule: Rule) -> None:
    limits = Limits(30, 1000, frozenset({eos}))
    steps = run(limits, rule=rule)
    assert ids_of(steps) == list(range(1, eos + 1)) == ids_of(plain(limits))
    assert steps[-1].stop is Stop.EOS and steps[-1].tokens[-1].origin is origin
    assert [step.stop for step in steps[:-1]] == [None] * (len(steps) - 1)
    if eos > 1:
        assert steps[-1].accepted == 4  # what was accepted behind the end still counts as accepted


def test_an_end_of_text_that_corrects_a_draft_ends_the_lane() -> None:
    steps = run(Limits(30, 1000, frozenset({4})), drafter=Scripted(wrong=4))
    assert ids_of(steps) == [1, 2, 3, 4]
    assert steps[-1].tokens[-1].origin is Origin.CORRECTED and steps[-1].stop is Stop.EOS


def test_any_of_several_ends_of_text_ends_the_lane_and_a_refused_one_does_not() -> None:
    assert ids_of(run(Limits(30, 1000, frozenset({9, 4, 20})))) == [1, 2, 3, 4]
    drafter = Scripted(wrong=4)  # drafts 9 where 4 is right
    steps = run(Limits(8, 1000, frozenset({9})), drafter=drafter)
    assert ids_of(steps) == list(range(1, 9)) and steps[1].drafted[2].id == 9


@settings(max_examples=150, deadline=None)
@given(
    budget=st.integers(1, 30),
    context=st.integers(2, 40),
    gamma=st.integers(0, 16),
    eos=st.frozensets(st.integers(1, 39), max_size=3),
    wrong=st.integers(1, VOCAB),
    most=st.integers(0, 16),
    stop=st.none() | st.lists(st.integers(1, 39), min_size=1, max_size=3),
    rule=st.sampled_from(Rule),
)
def test_lanes_end_at_the_same_token_for_the_same_reason(
    budget: int, context: int, gamma: int, eos: frozenset[int], wrong: int, most: int, stop: list | None, rule: Rule
) -> None:
    limits = Limits(budget, context, eos)
    stopper = (lambda: Watch(stop)) if stop else None
    drafter = Scripted(wrong, most)
    steps, baseline = run(limits, gamma, drafter, rule, stopper), plain(limits, stopper)
    assert ids_of(steps) == ids_of(baseline)
    assert steps[-1].stop is baseline[-1].stop is not None
    assert len(ids_of(steps)) <= min(budget, context - 1)
    emitted = 1
    for step, asked in zip(steps[1:], drafter.asked, strict=False):
        assert asked <= min(budget, context - 1) - emitted - 1, "a draft runs past the budget or the context"
        emitted += len(step.tokens)


class Watch:
    """A stopper: ends once these ids were emitted in a row, across rounds."""

    def __init__(self, wanted: Sequence[int]) -> None:
        self.wanted, self.tail = list(wanted), []

    def __call__(self, new: Sequence[int]) -> int | None:
        for kept, token in enumerate(new, start=1):
            self.tail = [*self.tail, token][-len(self.wanted) :]
            if self.tail == self.wanted:
                return kept
        return None


@pytest.mark.parametrize("wanted", [[1], [3], [3, 4], [6], [6, 7], [5, 6, 7, 8]])
def test_a_stop_string_is_found_across_tokens_and_rounds(wanted: list[int]) -> None:
    steps = run(Limits(30, 1000), stopper=lambda: Watch(wanted))
    assert ids_of(steps) == list(range(1, wanted[-1] + 1))
    assert steps[-1].stop is Stop.STOP_STRING


def test_the_budget_ends_inside_what_a_draft_would_have_reached() -> None:
    for budget in range(1, 15):
        drafter = Scripted()
        steps = run(Limits(budget, 1000), drafter=drafter)
        assert ids_of(steps) == list(range(1, budget + 1))
        assert steps[-1].stop is Stop.BUDGET
        assert all(len(step.drafted) == len(step.tokens) - 1 for step in steps[1:]), "drafted more than could be used"
    assert steps[-1].why is Why.BUDGET


def test_the_context_ends_a_lane_and_says_so() -> None:
    for steps in (run(Limits(100, 12), prompt=(3, 4, 0)), plain(Limits(100, 12), prompt=(3, 4, 0))):
        assert len(ids_of(steps)) == 9 and steps[-1].stop is Stop.CONTEXT
    assert run(Limits(9, 12), prompt=(3, 4, 0))[-1].stop is Stop.BUDGET


@pytest.mark.parametrize("rule", Rule)
def test_a_drafter_may_propose_fewer_or_none(rule: Rule) -> None:
    for most, why in ((0, Why.NO_MATCH), (2, Why.NO_MATCH), (4, Why.POLICY)):
        steps = run(Limits(11, 1000), drafter=Scripted(most=most), rule=rule)
        assert ids_of(steps) == list(range(1, 12))
        assert steps[1].why is why and len(steps[1].drafted) == most
        assert steps[1].tokens[-1].origin is (Origin.BONUS if most else Origin.TARGET)
    assert run(Limits(5, 1000), gamma=0)[1].why is Why.PLAIN


def test_behind_a_refusal_nothing_is_reached() -> None:
    step = run(Limits(30, 1000), drafter=Scripted(wrong=4))[1]
    assert [d.verdict for d in step.drafted] == [
        Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.REFUSED, Verdict.UNREACHED
    ]  # fmt: skip


# --- Faults ----------------------------------------------------------------------------------------------------------


class Breaking(ChainRunner):
    """Gives what is not a number from its n-th forward on: all of a row, or one entry."""

    def __init__(self, at: int, whole: bool = True, value: float = torch.nan) -> None:
        super().__init__(COUNTING)
        self.forwards, self.at, self.whole, self.value = 0, at, whole, value

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        out = super().forward(ids, rows, aux_layers)
        self.forwards += 1
        if self.forwards > self.at and rows:
            out.logits[:, slice(None) if self.whole else 3] = self.value
        return out


PARAMS = [GREEDY, SamplingParams(temperature=1.0, top_p=0.9, top_k=10)]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("at", [0, 2])
def test_a_target_that_gives_no_numbers_is_a_fault_in_a_sentence(params: SamplingParams, whole: bool, at: int) -> None:
    lanes = [autoregressive(Breaking(at, whole), (0,), params, Ending(Limits(20, 100), 1))]
    for rule in Rule:
        lanes.append(speculative(Breaking(at, whole), Scripted(), (0,), params, rule, 3, Ending(Limits(20, 100), 1)))
    for lane in lanes:
        with pytest.raises(DecodingFault, match=r"^The target model's output is not a number.*\.$"):
            list(lane)


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("rule", Rule)
def test_so_is_a_draft_model_that_gives_none(params: SamplingParams, whole: bool, rule: Rule) -> None:
    """Also greedy, where the one-hot of broken logits could look like any other."""
    drafter = ModelDrafter(Breaking(3, whole))
    with pytest.raises(DecodingFault, match=r"^The draft model's output is not a number.*\.$"):
        list(speculative(ChainRunner(COUNTING), drafter, (0,), params, rule, 3, Ending(Limits(20, 100), 1)))


def test_an_infinite_logit_is_no_number_either() -> None:
    with pytest.raises(DecodingFault):
        list(autoregressive(Breaking(1, whole=False, value=torch.inf), (0,), GREEDY, Ending(Limits(20, 100), 1)))
    banned = list(autoregressive(Breaking(0, False, -torch.inf), (7,), GREEDY, Ending(Limits(5, 100), 1)))
    assert ids_of(banned) == [8, 9, 10, 11, 12]  # minus infinity forbids a token, and breaks nothing


def test_a_room_of_nothing_is_not_begun() -> None:
    for limits in (Limits(0, 100), Limits(5, 10)):
        with pytest.raises(AssertionError):
            Ending(limits, prompt_length=10)
