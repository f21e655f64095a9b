"""A chain that ends where its next token no longer pays: near the best any rule of that kind can do, costs known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial

import pytest
import torch

from specdemo.decoding.marginal_gain import MarginalGain
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.round_costs import Calibration
from specdemo.decoding.steps import Rule, Step, Why
from tests.chisquare import assert_follows
from tests.decoding.test_distribution import histogram, model_drafter
from tests.decoding.test_draft_length import step
from tests.tables import joint, reference, tables
from tests.threads import one_thread  # noqa: F401

LONGEST = 12
ROW, DRAFT, COMMIT = 0.04, 0.06, 0.03  # over a plain step
COSTS = Calibration({0: 1, LONGEST: 1 + ROW * LONGEST}, idle=COMMIT, first=COMMIT, step=DRAFT)  # a head's


@cache
def said(confidence: float) -> torch.Tensor:
    """Logits of two tokens, the likelier one of this probability."""
    return torch.tensor([confidence, 1 - confidence]).log()


def a_step(k: int, accepted: int, draft_steps: int = 0) -> Step:
    return step(k, accepted, LONGEST, draft=COMMIT + DRAFT * draft_steps, verify=1 + ROW * k)


class Threshold:
    """Ends a chain by the chance that all of it is accepted, before a draft step and before a token, or by length."""

    def __init__(self, step: float = 0.0, token: float = 0.0, longest: int = LONGEST) -> None:
        self.step, self.token, self.longest = step, token, longest

    def next(self) -> None:
        self.reached, self.length = 1.0, 0

    def unsure(self, logits: torch.Tensor) -> bool:
        reached = self.reached * float(logits.amax().exp())
        if reached < self.token or self.length == self.longest:
            return True
        self.reached, self.length = reached, self.length + 1
        return False

    def goes_on(self) -> bool:
        return self.reached >= self.step and self.length < self.longest

    def learn(self, step: Step) -> None:
        pass


def tokens_a_second(
    policy: MarginalGain | Threshold, confidences: Sequence[float], held: Callable[[float], float], steps: int = 1500
) -> float:
    """Of a run whose drafter says one of these confidences, each as often, and is right with `held` of what it says."""
    chance = random.Random(3)
    tokens = seconds = 0.0
    for _ in range(steps):
        policy.next()
        drawn: list[float] = []
        draft_steps = 0
        for confidence in chance.choices(confidences, k=LONGEST):
            if drawn and not policy.goes_on():
                break
            draft_steps += bool(drawn)
            if policy.unsure(said(confidence)):
                break
            drawn.append(held(confidence))
        accepted = next((i for i, alpha in enumerate(drawn) if chance.random() >= alpha), len(drawn))
        taken = a_step(len(drawn), accepted, draft_steps)
        policy.learn(taken)
        reached = worth = 1.0
        for alpha in drawn:  # valued at what it is worth on average
            reached *= alpha
            worth += reached
        tokens, seconds = tokens + worth, seconds + taken.seconds
    return tokens / seconds


def best_threshold(confidences: Sequence[float]) -> float:
    tried = [(step, token) for step in (0.05, 0.15, 0.3, 0.6, 0.9) for token in (0.02, 0.05, 0.1, 0.3)]
    return max(tokens_a_second(Threshold(*one), confidences, float, 500) for one in tried)


@pytest.mark.parametrize("confidences", [(0.95, 0.3), (0.8, 0.5, 0.2), (0.1,), (0.97,), (0.6,)])
def test_it_comes_within_four_percent_of_the_best_threshold_on_what_is_reached(confidences: Sequence[float]) -> None:
    assert tokens_a_second(MarginalGain(LONGEST, COSTS), confidences, float) > 0.96 * best_threshold(confidences)


def test_where_the_drafter_knows_what_it_knows_it_beats_every_fixed_length() -> None:
    confidences = (0.97, 0.97, 0.3)
    fixed = max(tokens_a_second(Threshold(longest=n), confidences, float, 500) for n in range(LONGEST + 1))
    assert tokens_a_second(MarginalGain(LONGEST, COSTS), confidences, float) > 1.05 * fixed


def test_a_drafter_that_promises_too_much_is_not_believed_for_long() -> None:
    plain = 1 / (1 + COMMIT)
    assert tokens_a_second(MarginalGain(LONGEST, COSTS), (0.9, 0.95), lambda confidence: 0.02) > 0.97 * plain


def test_a_model_whose_every_draft_costs_is_left_alone_and_looked_at_again() -> None:
    """Dear to look at, for nothing at first and then sure of every token."""
    dear, plain = 0.6, 0.0
    policy = MarginalGain(4, Calibration({0: 1, 4: 1.1}, idle=0.0, first=dear, step=dear))
    seconds = 0.0
    for _ in range(128):
        drafts = policy.next() > 0
        seconds += 1 + dear * drafts
        if drafts:
            policy.unsure(said(0.5))
        policy.learn(step(int(drafts), 0, policy.longest * drafts, draft=dear * drafts))
    assert policy.why in (Why.DOES_NOT_PAY, Why.PROBE) and seconds < 1.15 * 128
    for _ in range(300):
        wanted, k = policy.next(), 0
        while k < wanted and (not k or policy.goes_on()) and not policy.unsure(said(0.99)):
            k += 1
        plain += not k
        policy.learn(step(k, k, wanted, draft=dear * k, verify=1 + 0.025 * k))
    assert policy.why is Why.POLICY and plain < 140, "one whole pause, at most"
    assert k == 4


def test_copies_go_on_while_their_own_record_pays() -> None:
    policy = MarginalGain(LONGEST, COSTS)

    def copies(alpha: float) -> int:
        policy.next()
        return next((n for n in range(LONGEST) if not policy.pays(alpha)), LONGEST)

    for _ in range(99):
        policy.next()
        policy.learn(a_step(0, 0))
    assert copies(1.0) == LONGEST
    # a token in a plain step, nearly: a row of 0.04 pays down to a chance of 0.04
    assert copies(0.5) == 4 and copies(0.1) == 1 and copies(0.03) == 0


def test_what_is_no_number_is_a_fault_and_not_a_short_draft() -> None:
    policy = MarginalGain(4)
    policy.next()
    assert not policy.unsure(torch.full((4,), torch.nan))


@pytest.mark.parametrize("rule", [Rule.REJECTION, Rule.BLOCK])
def test_it_leaves_the_law_alone(rule: Rule) -> None:
    target, warm = tables(3, 5, seed=33, spread=1.0), SamplingParams(temperature=0.8)
    assert_follows(
        histogram(target, model_drafter, warm, rule, partial(MarginalGain, 4)), joint(reference(target, warm))
    )
