"""Draft-length policies: their arithmetic on invented steps, their law, their gain where costs are known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import pytest
import torch

from specdemo.decoding import cost_optimal
from specdemo.decoding import speculative as loop
from specdemo.decoding.draft_length import (
    AcceptanceFallback,
    AcrossRuns,
    Additive,
    Confidence,
    CostOptimal,
    Entropy,
    Fallback,
    Fixed,
    Heuristic,
    Intervals,
    Levels,
    Policy,
    TwoLevels,
    policy,
)
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.round_costs import Calibration, Costs
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Drafted, DraftLength, Origin, Rule, Step, Stop, Token, Verdict, Why
from specdemo.drafters.model import ModelDrafter
from tests.chisquare import assert_follows, power
from tests.decoding.test_distribution import histogram, long_run, model_drafter
from tests.tables import ChainRunner, joint, reference, tables
from tests.threads import one_thread  # noqa: F401


def step(k: int, accepted: int, asked: int | None = None, draft: float = 0.0, verify: float = 1.0) -> Step:
    """A step that drafted k tokens, of which so many were accepted, and what it cost."""
    verdicts = [Verdict.ACCEPTED] * accepted + [Verdict.REFUSED] * (k > accepted)
    verdicts += [Verdict.UNREACHED] * (k - len(verdicts))
    tokens = (Token(0, Origin.TARGET),) * (accepted + 1)
    drafted = tuple(Drafted(0, verdict) for verdict in verdicts)
    asked = k if asked is None else asked
    return Step(tokens, drafted, asked, draft_seconds=draft, verify_seconds=verify, other_seconds=0.0)


def after(policy: Policy, *accepted: int) -> int:
    """What a policy asks for once its drafts were accepted so."""
    for n in accepted:
        k = policy.next()
        policy.learn(step(k, min(n, k)))
    return policy.next()


# --- Rules of thumb ---------------------------------------------------------------------------------------------------


def test_fixed_is_fixed() -> None:
    assert after(Fixed(4)) == after(Fixed(4), 4, 0, 4) == 4 and Fixed(4).why is Why.POLICY
    assert (after(Fixed(0)), Fixed(0).why, Fixed(0).drafts) == (0, Why.PLAIN, False)


@pytest.mark.parametrize("choice", DraftLength)
@pytest.mark.parametrize("longest", [1, 2, 5, 16])
def test_no_policy_leaves_its_bounds(choice: DraftLength, longest: int) -> None:
    assert isinstance(policy(choice, 0), Fixed) and not policy(choice, 0).drafts
    for accepted in (0, 16):
        made = policy(choice, longest)
        asked = [after(made, accepted) for _ in range(200)]
        assert all(0 <= k <= longest for k in asked)


def test_one_more_above_08_and_one_less_under_05_of_ten_steps() -> None:
    assert after(Additive(16), *[5] * 9) == 5, "the window is not full"
    assert after(Additive(16), *[5] * 10) == 6
    assert after(Additive(16), *[5] * 19) == 6, "a change empties the window"
    assert after(Additive(16), *[6] * 20) == 7
    assert after(Additive(16), *[4] * 10) == 5, "0.8 is not above 0.8"
    assert after(Additive(16), *[5, 0] * 5) == 5, "0.5 is not under 0.5"
    assert after(Additive(16), *[2] * 10) == 4
    assert after(Additive(16), *[0] * 100) == 1
    assert after(Additive(5), *[5] * 10) == 5 and after(Additive(3)) == 3


def test_two_levels_follow_the_rolling_acceptance() -> None:
    assert after(TwoLevels(16)) == 3
    assert after(TwoLevels(16), 3) == 6
    assert after(TwoLevels(16), 3, 0) == 3, "3 of 9"
    assert after(TwoLevels(16), *[6] * 20, 0, 0) == 6, "48 of 60"
    assert after(TwoLevels(16), *[6] * 20, *[0] * 5) == 3
    assert after(TwoLevels(5), 3) == 5 and after(TwoLevels(2), 3) == 2


def run(levels: Levels, accepted: int, drafted: int, longest: int = 16) -> int:
    """One run across the requests whose last step drafted and accepted so much; the length that it was given."""
    one = AcrossRuns(longest, levels)
    gamma = one.next()
    one.learn(step(gamma, gamma))
    one.learn(replace(step(drafted, accepted), stop=Stop.BUDGET))
    assert one.next() == gamma, "a run keeps its length to its end"
    return gamma


def test_two_levels_across_runs_change_after_every_n_and_by_these_alone() -> None:
    levels = Levels(every=2)
    assert [run(levels, 3, 3), run(levels, 0, 3)] == [3, 3] and levels.level == 6, "9 of 12"
    assert [run(levels, 0, 14), run(levels, 6, 6)] == [6, 6] and levels.level == 3, "18 of 32, the first two forgotten"
    assert [run(levels, 0, 4), run(levels, 0, 0)] == [3, 3] and levels.level == 6, "6 of 10 is enough"
    assert run(levels, 6, 6, longest=4) == 4, "never over γ"
    levels.reset()
    assert (levels.level, levels.requests, levels.drafted) == (3, 0, 0)


def test_a_run_that_is_broken_off_says_nothing_to_the_next_ones_and_one_without_drafts_moves_nothing() -> None:
    levels = Levels(every=1)
    AcrossRuns(16, levels).learn(step(3, 3))
    assert (levels.level, levels.requests) == (3, 0)
    levels.end(3, 3)
    levels.end(0, 0)
    assert levels.level == 6


def test_a_policy_without_levels_begins_low() -> None:
    assert policy(DraftLength.ACROSS_RUNS, 16).next() == 3
    levels = Levels(every=1)
    levels.end(1, 1)
    assert policy(DraftLength.ACROSS_RUNS, 16, levels).next() == 6


def test_two_more_after_all_were_accepted_else_one_less() -> None:
    assert after(Heuristic(16)) == 5
    assert after(Heuristic(16), 16, 16) == 9
    assert after(Heuristic(16), 16, 6, 0) == 5
    assert after(Heuristic(16), *[0] * 9) == 1
    assert after(Heuristic(8), *[16] * 9) == 8
    idle = Heuristic(16)
    idle.learn(step(0, 0, asked=5))
    assert idle.next() == 5, "a step that drafted nothing says nothing"


def test_a_plain_step_is_due_after_so_many_tokens() -> None:
    every = Intervals(3, every=10)
    asked = []
    for _ in range(9):
        asked.append((every.next(), every.why))
        every.learn(step(asked[-1][0], asked[-1][0]))
    assert [k for k, _ in asked] == [3, 3, 3, 0, 3, 3, 3, 0, 3], "twelve tokens, then one, which counts to the next ten"
    assert {why for k, why in asked if not k} == {Why.INTERVAL}


def test_a_chain_ends_where_the_drafter_is_unsure() -> None:
    sure, flat = torch.tensor([9.0, 0, 0, 0]), torch.zeros(4)
    assert [Confidence(4).unsure(sure), Confidence(4).unsure(flat)] == [False, True]
    assert [Entropy(4, most=1.0).unsure(sure), Entropy(4, most=1.0).unsure(flat)] == [False, True]
    pruned = torch.tensor([0.0, 0.0, -torch.inf, -torch.inf])
    assert not Entropy(4, most=1.0).unsure(pruned) and not Confidence(4).unsure(pruned)
    for made in (Confidence(4), Entropy(4)):
        assert not made.unsure(torch.full((4,), torch.nan)), "what is no number is a fault, and not a short draft"


def test_drafts_that_do_not_pay_are_given_up_and_that_is_told() -> None:
    dear = Fallback(4)
    said = []
    for _ in range(60):
        k = dear.next()
        said.append((k, dear.why, dear.drafts))
        dear.learn(step(k, 0, verify=1.5 if k else 1.0))
    assert dear.predicted_speedup == pytest.approx(1 / 1.5)
    assert [k for k, _, _ in said[:3]] == [4, 0, 4] and said[1][1] is Why.CALIBRATION
    fallen = said.index((0, Why.FALLBACK, False))
    assert fallen == 23, "twenty drafts and three plain steps later"
    assert set(said[fallen:]) == {(0, Why.FALLBACK, False)}, "for the rest of the run"


def test_drafts_that_pay_are_not() -> None:
    cheap = Fallback(4)
    for _ in range(200):
        k = cheap.next()
        cheap.learn(step(k, min(k, 1), verify=1.9 if k else 1.0))
    assert cheap.drafts and cheap.predicted_speedup == pytest.approx(2 / 1.9)


def test_one_slow_moment_gives_nothing_up() -> None:
    made = Fallback(4)
    for i in range(200):
        k = made.next()
        made.learn(step(k, min(k, 1), verify=(9.0 if i % 25 < 3 else 1.5) if k else 1.0))
    assert made.drafts


def test_acceptance_under_04_over_twenty_steps_is_given_up() -> None:
    assert after(AcceptanceFallback(5), *[1] * 19) == 5
    assert after(AcceptanceFallback(5), *[1] * 20) == 0
    assert after(AcceptanceFallback(5), *[2] * 40) == 5, "0.4 is not under 0.4"
    fallen = AcceptanceFallback(5)
    after(fallen, *[0] * 30)
    assert (fallen.why, fallen.drafts) == (Why.FALLBACK, False)
    assert fallen.next() == 0


# --- The law ----------------------------------------------------------------------------------------------------------

MOVES = [  # what moves much within a few thousand tokens
    (partial(Additive, 6), Rule.REJECTION),
    (partial(TwoLevels, 6), Rule.BLOCK),
    (partial(Heuristic, 8), Rule.REJECTION),
    (partial(CostOptimal, 6), Rule.BLOCK),
    (partial(Intervals, 4, every=7), Rule.REJECTION),
    (partial(AcceptanceFallback, 3), Rule.BLOCK),
]


@pytest.mark.parametrize(("make", "rule"), MOVES)
def test_a_length_that_follows_the_rounds_before_leaves_the_law_alone(make: Callable[[], Policy], rule: Rule) -> None:
    assert_follows(*long_run(rule, tokens=1500, gamma=make()))


ENDS = [(Rule.REJECTION, partial(Confidence, 3, least=0.55)), (Rule.BLOCK, partial(Entropy, 4, most=0.9))]
WARM = SamplingParams(temperature=0.8)


@pytest.mark.parametrize(("rule", "make"), ENDS)
def test_a_chain_that_ends_before_it_draws_leaves_the_law_alone(rule: Rule, make: Callable[[], Policy]) -> None:
    target = tables(3, 5, seed=33, spread=1.0)
    assert_follows(histogram(target, model_drafter, WARM, rule, make), joint(reference(target, WARM)))


def drop_what_was_drawn(self: loop.Dice, logits: torch.Tensor, drafted: Sequence[torch.Tensor]) -> tuple | None:
    """Looks at the token first and drops it where it is unlikely."""
    token, q = drawn = DRAW(self, logits, drafted)
    return None if q[token] < 0.4 else drawn


DRAW = loop.Dice.__call__


def test_one_that_ends_after_it_drew_does_not_and_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.Dice, "__call__", drop_what_was_drawn)
    assert power(*long_run(Rule.REJECTION, tokens=4500)) > 0.999


def test_the_drafter_goes_on_from_a_chain_that_ended() -> None:
    """Its cache holds what was emitted and nothing else: the next drafts are those of a fresh drafter."""
    target = ChainRunner(CHAIN)
    drafter = ModelDrafter(ChainRunner(CHAIN.like(0.8)))
    ended, emitted = 0, [0]
    for one in speculative(target, drafter, (0,), HOT, Rule.REJECTION, Confidence(5, least=0.6), Ending(LIMITS, 1)):
        emitted += [token.id for token in one.tokens]
        ended += one.why is Why.UNSURE
        held = drafter.runner.ids
        assert one.stop or held == emitted[: len(held)], "less than all of it waits for the next draft"
    assert ended > 20


CHAIN = tables(6, 2, seed=5, spread=1.5)
HOT = SamplingParams(temperature=1.0)
LIMITS = Limits(200, 1000)


# --- Costs that are known ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """No model: drafts accepted by chance, steps that cost v(k) + c k + o.

    accept: conditional acceptance per position, the last one going on, at each token of the text. found: the share of
    asked steps in which the drafter finds something.
    """

    accept: Callable[[int], Sequence[float]]
    v: Callable[[int], float]
    c: float
    o: float = 0.02
    found: float = 1.0

    @property
    def measured(self) -> Calibration:
        """As it is when a pair is loaded."""
        return Calibration({k: self.v(k) + (self.o if k else 0) for k in range(LONGEST + 1)}, 0.0, self.c, self.c)

    def cost(self, k: int) -> float:
        return self.v(k) + self.c * k + (self.o if k else 0)

    def tokens(self, accept: Sequence[float], gamma: int) -> float:
        """E of a step that is asked for γ tokens."""
        expected = reached = 1.0
        for i in range(gamma):
            reached *= accept[min(i, len(accept) - 1)]
            expected += reached
        return 1 + self.found * (expected - 1)

    def seconds(self, gamma: int) -> float:
        """What it costs."""
        return self.found * self.cost(gamma) + (1 - self.found) * self.cost(0)

    def speedup(self, accept: Sequence[float], gamma: int) -> float:
        return self.tokens(accept, gamma) / self.seconds(gamma)

    def best(self, accept: Sequence[float]) -> int:
        return max(range(LONGEST + 1), key=lambda gamma: self.speedup(accept, gamma))


LONGEST = 16


def simulated(world: World, made: Policy, tokens: int, seed: int) -> float:
    """Speedup over plain decoding (v(0) = 1) of a run of so many tokens.

    The policy sees chance; what it asked for is valued at what it is worth on average, so that few runs tell enough.
    """
    chance = random.Random(seed)
    at, worth, seconds = 0, 0.0, 0.0
    while at < tokens:
        asked = made.next()
        k = asked if chance.random() < world.found else 0
        accept = world.accept(at)
        n = next((i for i in range(k) if chance.random() >= accept[min(i, len(accept) - 1)]), k)
        for _ in range(k - 1):
            made.goes_on()
        made.learn(step(k, n, asked, draft=world.c * k, verify=world.v(k) + (world.o if k else 0)))
        at += n + 1
        worth, seconds = worth + world.tokens(accept, asked), seconds + world.seconds(asked)
    return worth / seconds


def always(*accept: float) -> Callable[[int], Sequence[float]]:
    return lambda at: accept


def sloped(slope: float) -> Callable[[int], float]:
    return lambda k: 1 + slope * k


def stairs(k: int) -> float:
    """v(k) as fp32 has it on two cores: docs/log.md's kind of machine."""
    known = {0: 41, 1: 45, 2: 49, 3: 66, 4: 67, 5: 69, 6: 76, 8: 82, 16: 89}
    low, high = next((a, b) for a, b in pairwise(known) if a <= k <= b)
    return (known[low] + (known[high] - known[low]) * (k - low) / (high - low)) / known[0]


def ridge(k: int) -> float:
    """Flat up to seven drafts, then steep."""
    return 1 + 0.01 * k + 0.06 * max(k - 7, 0)


STATIONARY = {
    "a cheap draft that is often right": World(always(0.9), sloped(0.02), c=0.04),
    "a dear one": World(always(0.8), sloped(0.04), c=0.3),
    "one that hardly pays": World(always(0.5), sloped(0.03), c=0.3),
    "one that does not": World(always(0.3), sloped(0.03), c=0.4),
    "stairs": World(always(0.6), stairs, c=0.04),
    "a ridge": World(always(0.85), ridge, c=0.1),
    "acceptance that falls": World(always(0.85, 0.7, 0.5, 0.3), sloped(0.04), c=0.05),
    "acceptance that rises": World(always(0.6, 0.7, 0.8), sloped(0.04), c=0.03),
    "a lookup that finds something in half of the steps": World(always(0.7), stairs, c=0.0, found=0.5),
}


@pytest.mark.parametrize(("tokens", "share"), [(64, 0.94), (1200, 0.98)])
@pytest.mark.parametrize("name", STATIONARY)
def test_cost_optimal_comes_near_the_best_fixed_length(name: str, tokens: int, share: float) -> None:
    """Which it does not know beforehand: acceptance it must learn."""
    world = STATIONARY[name]
    accept = world.accept(0)
    best = world.speedup(accept, world.best(accept))
    seeds = range(8 if tokens < 100 else 2)
    found = [simulated(world, CostOptimal(LONGEST, world.measured), tokens, seed) for seed in seeds]
    assert sum(found) / len(found) > share * best, f"γ {world.best(accept)} reaches {best:.2f}"


@pytest.mark.parametrize("name", ["a dear one", "one that does not", "a ridge", "acceptance that falls"])
def test_costs_that_were_measured_wrongly_are_put_right(name: str) -> None:
    """Here by a machine that said nothing at all."""
    world = STATIONARY[name]
    accept = world.accept(0)
    best = world.speedup(accept, world.best(accept))
    assert simulated(world, CostOptimal(LONGEST), 1200, seed=0) > 0.96 * best


@pytest.mark.parametrize("phase", [None, 150])
def test_on_a_mix_whose_oracle_gains_ten_percent_it_gains_five(phase: int | None) -> None:
    """Over the best single length. Each kind a run of its own, or both in one run, by turns."""
    kinds = [(0.88,), (0.35,)]
    costs = World(always(), sloped(0.04), c=0.1)

    def seconds(gamma: Callable[[Sequence[float]], int]) -> float:
        return sum(1 / costs.speedup(accept, gamma(accept)) for accept in kinds)

    single = min(seconds(lambda accept, gamma=gamma: gamma) for gamma in range(LONGEST + 1))
    assert single / seconds(costs.best) == pytest.approx(1.10, abs=0.02)
    worlds = [World(always(*accept), costs.v, costs.c) for accept in kinds]
    if phase:
        worlds = [World(lambda at: kinds[at // phase % 2], costs.v, costs.c)] * 2
    found = [
        sum(1 / simulated(world, CostOptimal(LONGEST, costs.measured), 900, seed) for seed in range(2)) / 2
        for world in worlds
    ]
    assert single / sum(found) > 1.05


@pytest.mark.parametrize("c", [0.0, 0.1, 0.3])
def test_where_nothing_is_accepted_it_decodes_plainly_and_loses_next_to_nothing(c: float) -> None:
    world = World(always(0.0), sloped(0.04), c)
    made = CostOptimal(LONGEST, world.measured)
    assert simulated(world, made, 256, seed=0) > 0.98
    made.next()
    assert made.why in (Why.DOES_NOT_PAY, Why.PROBE)


def test_it_comes_back_when_drafts_pay_again() -> None:
    world = World(lambda at: (0.0,) if at < 200 else (0.9,), sloped(0.04), c=0.1)
    there = World(always(0.9), sloped(0.04), c=0.1)
    whole = 1000 / simulated(world, CostOptimal(LONGEST), 1000, seed=1)
    oracle = 200 + 800 / there.speedup((0.9,), there.best((0.9,)))
    assert whole < 1.15 * oracle


def test_a_single_accident_of_the_clock_is_not_believed() -> None:
    made = CostOptimal(8)
    for i in range(40):
        k = made.next()
        made.learn(step(k, k, draft=0.02 * k, verify=9.0 if i == 1 else 1.0))
    assert made.next() == 8


def rounds(costs: Costs, k: int, times: int, draft: float, verify: float) -> None:
    for _ in range(times):
        costs.learn(step(k, 0, draft=draft, verify=verify), draft_steps=max(0, k - 1))


def test_costs_are_interpolated_never_falling_and_flat_beyond() -> None:
    costs = Costs(6, Calibration({0: 1.0, 1: 1.2, 2: 1.1, 4: 1.3}, idle=0.01, first=0.05, step=0.02))
    assert costs.verification == pytest.approx([1.0, 1.1, 1.1, 1.2, 1.3, 1.3, 1.3])
    assert costs.rounds() == pytest.approx([1.01, 1.15, 1.17, 1.29, 1.41, 1.43, 1.45])


def test_a_slow_minute_makes_no_length_dear_and_one_that_is_dearer_than_measured_is_learnt() -> None:
    costs = Costs(4, Calibration({0: 1.0, 4: 1.2}, idle=0.0, first=0.05, step=0.02))
    known = costs.rounds()
    for k, cost in ((2, 1.1), (0, 1.0), (4, 1.2)):
        rounds(costs, k, 6, draft=(0.05 + 0.02 * (k - 1)) * 3 if k else 0.0, verify=cost * 3)
    assert costs.pace == pytest.approx(3) and costs.rounds() == pytest.approx(known)
    rounds(costs, 4, 6, draft=0.33, verify=6.0)
    assert costs.verification[:3] == pytest.approx([1.0, 1.05, 1.1]) and costs.verification[4] == pytest.approx(2.0)


def test_one_accident_of_the_clock_changes_nothing() -> None:
    costs = Costs(4, Calibration({0: 1.0, 4: 1.2}, idle=0.0, first=0.05, step=0.02))
    known = costs.rounds()
    rounds(costs, 4, 1, draft=0.11, verify=1.2)
    rounds(costs, 4, 1, draft=5.0, verify=9.0)
    assert costs.rounds() == pytest.approx(known)


def test_a_calibration_is_made_of_rounds() -> None:
    times = {0: (0.01, 1.0), 1: (0.05, 1.1), 4: (0.11, 1.2), 8: (0.19, 1.6)}
    steps = [step(k, 0, draft=draft, verify=verify) for k, (draft, verify) in times.items() for _ in range(3)]
    accident = step(4, 0, draft=7.0, verify=7.0)
    made = Calibration.of([accident, *steps])
    assert dict(made.verify) == {0: 1.0, 1: 1.1, 4: 1.2, 8: 1.6}
    assert (made.idle, made.first, made.step) == pytest.approx((0.01, 0.05, 0.02))
    assert made.drafted_token == pytest.approx(0.11 / 4)
    assert Calibration.of(steps[:3]) is None and Calibration.of(steps[3:]) is None


def test_what_it_expects_moves_to_what_it_sees() -> None:
    known = cost_optimal._Acceptance(4)
    assert known.expected()[0] == 1
    for n in [3, 1, 0, 2, 4] * 60:
        known.learn(step(4, n))
    # of five steps four accept the first, three the second (of four), two the third (of three), one the fourth
    assert known.expected() == pytest.approx([1, 1.8, 2.4, 2.8, 3.0], abs=0.25)
    for n in [4] * 40 + [0] * 3:
        known.learn(step(4, n))
    assert known.expected()[4] < 2.5, "three refusals in a row are another text"
