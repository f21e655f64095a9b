"""A chain that ends where its next token no longer pays: near the best any rule of that kind can do, costs known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial

import pytest
import torch

from specdemo.decoding.marginal_gain import MarginalGain
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Rule, Step
from tests.chisquare import assert_follows
from tests.decoding.test_distribution import histogram, model_drafter
from tests.decoding.test_draft_length import step
from tests.tables import joint, reference, tables
from tests.threads import one_thread  # noqa: F401

LONGEST = 12
ROW, DRAFT, COMMIT = 0.04, 0.06, 0.03  # over a plain step


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
    assert tokens_a_second(MarginalGain(LONGEST), confidences, float) > 0.96 * best_threshold(confidences)


def test_where_the_drafter_knows_what_it_knows_it_beats_every_fixed_length() -> None:
    confidences = (0.97, 0.97, 0.3)
    fixed = max(tokens_a_second(Threshold(longest=n), confidences, float, 500) for n in range(LONGEST + 1))
    assert tokens_a_second(MarginalGain(LONGEST), confidences, float) > 1.05 * fixed


def test_a_drafter_that_promises_too_much_is_not_believed_for_long() -> None:
    plain = 1 / (1 + COMMIT)
    assert tokens_a_second(MarginalGain(LONGEST), (0.9, 0.95), lambda confidence: 0.02) > 0.97 * plain


def test_copies_go_on_while_their_own_record_pays() -> None:
    policy = MarginalGain(LONGEST)

    def copies(alpha: float) -> int:
        policy.next()
        return next((n for n in range(LONGEST) if not policy.pays(alpha)), LONGEST)

    assert copies(0.5) == MarginalGain.FIRST, "before costs are known"
    for k in (0, 3, 3, 0, 6):
        policy.next()
        policy.learn(a_step(k, 0))
    assert copies(1.0) == LONGEST
    # one token in some 1.1 plain steps: a row of 0.04 pays down to a chance of 0.036
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
