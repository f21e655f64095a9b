"""The cost model against its own definition: simulated rounds, textbook figures, and the limits of α, γ and cost."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo import theory
from specdemo.theory import CostModel

ALPHA = st.floats(0, 1)
GAMMA = st.integers(0, 16)
COST = st.floats(0, 2)


@pytest.mark.parametrize(("alpha", "tokens"), [(0.6, 2.31), (0.7, 2.77), (0.8, 3.36)])
def test_expected_tokens_at_gamma_four_are_the_published_ones(alpha: float, tokens: float) -> None:
    assert theory.expected_tokens(alpha, 4) == pytest.approx(tokens, abs=0.005)


@pytest.mark.parametrize(("c", "speedup"), [(0.05, 2.8), (0.1, 2.4)])
def test_the_textbook_speedup_at_alpha_08_and_gamma_four(c: float, speedup: float) -> None:
    assert CostModel(0.8, c).speedup(4) == pytest.approx(speedup, abs=0.005)


@given(ALPHA.filter(lambda alpha: alpha < 0.999), GAMMA)
def test_the_sum_is_the_closed_form(alpha: float, gamma: int) -> None:
    closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert theory.expected_tokens(alpha, gamma) == pytest.approx(closed)


@given(GAMMA)
def test_a_perfect_draft_writes_gamma_plus_one_and_a_useless_one_writes_one(gamma: int) -> None:
    assert theory.expected_tokens(1.0, gamma) == gamma + 1
    assert theory.expected_tokens(0.0, gamma) == 1


@pytest.mark.parametrize(("alpha", "gamma"), [(0.3, 2), (0.8, 5)])
def test_expected_tokens_are_the_mean_of_simulated_rounds(alpha: float, gamma: int) -> None:
    chance = random.Random(1)
    rounds = 40_000
    written = sum(next((i for i in range(gamma) if chance.random() >= alpha), gamma) + 1 for _ in range(rounds))
    assert theory.expected_tokens(alpha, gamma) == pytest.approx(written / rounds, abs=0.04)


def test_a_step_costs_verification_drafting_and_the_rest() -> None:
    assert theory.step_cost(4, c=0.1, v=1.2, o=0.05) == pytest.approx(1.65)
    model = CostModel(0.8, c=0.1, slope=0.05, o=0.05)
    assert model.cost(4) == pytest.approx(1.65) and model.speedup(4) == pytest.approx(3.3616 / 1.65)


@given(ALPHA, st.integers(1, 16), COST, st.floats(0.5, 3), COST)
def test_writing_the_break_even_tokens_is_a_speedup_of_one(
    alpha: float, gamma: int, c: float, v: float, o: float
) -> None:
    needed = theory.step_cost(gamma, c=c, v=v, o=o)
    model = CostModel(alpha, c, slope=(v - 1) / gamma, o=o)
    assert needed / model.cost(gamma) == pytest.approx(1)
    assert model.speedup(gamma) * needed == pytest.approx(theory.expected_tokens(alpha, gamma))


@given(ALPHA, COST)
def test_the_best_gamma_is_no_worse_than_any_other(alpha: float, c: float) -> None:
    model = CostModel(alpha, c)
    gamma, speedup = model.best(16)
    assert speedup >= 1 and all(speedup >= model.speedup(other) for other in range(1, 17))
    assert speedup == pytest.approx(model.speedup(gamma))


def test_a_draft_as_dear_as_the_target_is_not_worth_drafting() -> None:
    assert CostModel(0.8, c=1.0).best(16) == (0, 1.0)
    assert CostModel(0.0, c=0.01).best(16) == (0, 1.0)


def test_dear_verification_shortens_the_best_draft() -> None:
    cheap, _ = CostModel(0.8, 0.05).best(16)
    dear, _ = CostModel(0.8, 0.05, slope=0.1).best(16)
    assert dear < cheap


@pytest.mark.parametrize(("alpha", "gamma"), [(-0.1, 4), (1.1, 4), (0.5, -1), (float("nan"), 4)])
def test_an_impossible_alpha_or_gamma_is_refused(alpha: float, gamma: int) -> None:
    with pytest.raises(ValueError, match="α must lie between"):
        theory.expected_tokens(alpha, gamma)


@given(ALPHA, COST, GAMMA)
def test_a_model_with_nothing_around_it_is_the_textbooks(alpha: float, c: float, gamma: int) -> None:
    textbook = theory.expected_tokens(alpha, gamma) / (1 + c * gamma)
    assert CostModel(alpha, c).speedup(gamma) == pytest.approx(textbook)


def test_steps_without_a_draft_are_plain_ones_and_what_surrounds_them() -> None:
    model = CostModel(0.5, 0.1, slope=0.02, o=0.05, drafts=0.0)
    assert model.tokens(4) == 1 and model.cost(4) == pytest.approx(1.05)
    half = CostModel(0.5, 0.1, slope=0.02, o=0.05, drafts=0.5)
    assert half.tokens(2) == pytest.approx((1.75 + 1) / 2)
    assert half.cost(2) == pytest.approx((1.04 + 0.2 + 0.05 + 1.05) / 2)
    assert half.cost(0) == half.speedup(0) == 1


def test_the_slope_is_that_of_the_line_through_what_was_measured() -> None:
    assert theory.verification_slope([(2, 5, 1.1), (4, 7, 1.2), (0, 9, 3.0)]) == pytest.approx(0.05)
    assert theory.verification_slope([(4, 1, 0.9)]) == 0  # cheaper than a plain step: noise
    assert theory.verification_slope([]) == 0


def test_a_million_tokens_cost_the_hours_that_they_take() -> None:
    assert theory.cost_per_million_tokens(3.6, 1000) == pytest.approx(1.0)
