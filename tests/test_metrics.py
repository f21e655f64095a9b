"""The figures against the design's definitions: a lane counted by hand, and what holds for every lane."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.decoding.steps import Drafted, Origin, Parting, Rule, Step, Stop, Token, Verdict, Why
from specdemo.metrics import Comparison, LaneMetrics, Sameness, Speed, compare, cost_model, identity_promised
from tests.steps_strategy import lane_steps

A, R, U = Verdict.ACCEPTED, Verdict.REFUSED, Verdict.UNREACHED


def first(seconds: float = 0.5, token: int = 1) -> Step:
    """The prompt's step."""
    return Step((Token(token, Origin.TARGET),), (), 0, Why.PREFILL, 10, 0.0, seconds, 0.0)


def round_of(verdicts: str, ids: list[int], times: tuple[float, float, float] = (0.1, 0.2, 0.1)) -> Step:
    """A round whose drafts met these verdicts (A, R, U)."""
    drafted = tuple(Drafted(0, {"A": A, "R": R, "U": U}[letter]) for letter in verdicts)
    origins = [Origin.ACCEPTED] * verdicts.count("A")
    origins += [Origin.TARGET if not verdicts else Origin.CORRECTED if "R" in verdicts else Origin.BONUS]
    tokens = tuple(Token(i, origin) for i, origin in zip(ids, origins, strict=False))
    return Step(tokens, drafted, 4, Why.POLICY, 10, *times)


def plain_lane(ids: list[int], seconds: float = 0.4) -> LaneMetrics:
    """A baseline lane with one token a step."""
    steps = [first(token=ids[0])]
    steps += [Step((Token(i, Origin.TARGET),), (), 0, Why.PLAIN, 10, 0.0, seconds, 0.0) for i in ids[1:]]
    return LaneMetrics.of([*steps[:-1], dataclasses.replace(steps[-1], stop=Stop.BUDGET)])


@pytest.fixture
def lane() -> LaneMetrics:
    """Four rounds: 2 of 4, all 4, 0 of 2, and one that drafted nothing."""
    return LaneMetrics.of(
        [
            first(),
            round_of("AARU", [2, 3, 4]),
            round_of("AAAA", [5, 6, 7, 8, 9]),
            round_of("RU", [10]),
            round_of("", [11]),
        ]
    )


def test_the_counts_of_a_lane_counted_by_hand(lane: LaneMetrics) -> None:
    assert (lane.tokens, lane.steps, lane.target_passes) == (11, 5, 4)
    assert (lane.drafted, lane.accepted, lane.judged, lane.steps_that_drafted) == (10, 6, 8, 3)
    assert lane.tokens_by_origin == {
        Origin.TARGET: 2,
        Origin.ACCEPTED: 6,
        Origin.CORRECTED: 2,
        Origin.BONUS: 1,
    }
    assert lane.tokens_per_step == {3: 1, 5: 1, 1: 2}


def test_the_rates_of_a_lane_counted_by_hand(lane: LaneMetrics) -> None:
    assert lane.draft_acceptance_rate == 6 / 10
    assert lane.alpha == 6 / 8
    assert lane.mean_acceptance_length == 1 + 6 / 3
    assert lane.tokens_per_target_pass == 10 / 4
    assert lane.acceptance_per_position == (2 / 3, 2 / 3, 1 / 3, 1 / 3)


def test_the_times_of_a_lane_counted_by_hand(lane: LaneMetrics) -> None:
    assert lane.time_to_first_token == 0.5
    assert lane.draft_seconds == pytest.approx(0.4)
    assert lane.verify_seconds == pytest.approx(0.8)
    assert lane.other_seconds == pytest.approx(0.4)
    assert lane.decode_seconds == pytest.approx(1.6)
    assert lane.seconds == pytest.approx(2.1)
    assert lane.tokens_per_second == pytest.approx(10 / 1.6)
    assert lane.end_to_end_tokens_per_second == pytest.approx(11 / 2.1)


@given(lane_steps())
def test_emitted_is_accepted_plus_steps_less_what_was_cut(steps: list[Step]) -> None:
    lane = LaneMetrics.of(steps)
    whole = steps[-1].accepted + 1
    assert lane.tokens == lane.accepted + lane.steps - (whole - len(steps[-1].tokens))
    assert lane.accepted <= lane.judged <= lane.drafted
    assert sum(lane.tokens_by_origin.values()) == lane.tokens
    assert sum(lane.tokens_per_step.values()) == lane.target_passes


@given(lane_steps(fixed_gamma=True))
def test_acceptance_per_position_never_rises_at_fixed_gamma(steps: list[Step]) -> None:
    rates = LaneMetrics.of(steps).acceptance_per_position
    assert list(rates) == sorted(rates, reverse=True)
    assert all(0 <= rate <= 1 for rate in rates)


@given(lane_steps())
def test_the_parts_of_the_clock_add_up_to_the_clock(steps: list[Step]) -> None:
    lane = LaneMetrics.of(steps)
    assert lane.seconds == pytest.approx(sum(step.seconds for step in steps))
    assert lane.seconds == pytest.approx(lane.prefill_seconds + lane.decode_seconds)
    assert lane.decode_seconds == pytest.approx(lane.draft_seconds + lane.verify_seconds + lane.other_seconds)


@given(lane_steps())
def test_live_figures_are_those_of_the_steps_so_far(steps: list[Step]) -> None:
    live = LaneMetrics()
    for i, step in enumerate(steps):
        live.add(step)
        assert vars(live) == vars(LaneMetrics.of(steps[: i + 1]))


@given(lane_steps(), st.sampled_from(["draft_seconds", "verify_seconds", "other_seconds"]), st.data())
def test_one_unknown_time_makes_the_clock_unknown_and_nothing_else(
    steps: list[Step], name: str, data: st.DataObject
) -> None:
    i = data.draw(st.integers(0, len(steps) - 1))
    untimed = [dataclasses.replace(step, **{name: None}) if j == i else step for j, step in enumerate(steps)]
    lane, timed = LaneMetrics.of(untimed), LaneMetrics.of(steps)
    assert lane.seconds is None
    assert lane.end_to_end_tokens_per_second is None
    assert (lane.tokens_per_second is None) == (i > 0 or timed.tokens_per_second is None)
    assert (lane.tokens, lane.alpha, lane.tokens_per_target_pass) == (
        timed.tokens,
        timed.alpha,
        timed.tokens_per_target_pass,
    )


FIGURES = [name for name, member in vars(LaneMetrics).items() if isinstance(member, property)]


@pytest.mark.parametrize("steps", [[], [first()], [first(0.0)], [Step(())], [first(), Step((), stop=Stop.STOPPED)]])
def test_no_figure_divides_by_zero(steps: list[Step]) -> None:
    lane = LaneMetrics.of(steps)
    for name in FIGURES:
        getattr(lane, name)
    assert lane.tokens_per_second is None
    assert lane.alpha is None
    assert compare(lane, lane).speedup is None


def test_plain_decoding_is_one_token_a_pass() -> None:
    lane = plain_lane([1, 2, 3, 4])
    assert lane.tokens_per_target_pass == 1
    assert lane.mean_acceptance_length is None
    assert lane.tokens_per_second == pytest.approx(1 / 0.4)


# --- Two lanes -------------------------------------------------------------------------------------------------------


def test_speedup_is_tokens_a_second_over_tokens_a_second(lane: LaneMetrics) -> None:
    both = compare(plain_lane(list(range(1, 12))), lane)
    assert both.speedup == pytest.approx((10 / 1.6) / (1 / 0.4))
    assert both.end_to_end_speedup == pytest.approx((11 / 2.1) / (11 / 4.5))
    assert both.identical is True
    assert both.first_difference is None
    assert both.compared == 11
    assert (both.speed, both.sameness) == (Speed.FASTER, Sameness.IDENTICAL)


def test_the_numbers_of_the_verdict_explain_the_speedup(lane: LaneMetrics) -> None:
    both = compare(plain_lane(list(range(1, 12))), lane)
    assert both.verify_seconds_per_pass == pytest.approx(0.2)
    assert both.draft_share == pytest.approx(0.25)
    assert both.break_even_tokens_per_pass == pytest.approx(1.0)
    assert both.speedup == pytest.approx(both.tokens_per_target_pass / both.break_even_tokens_per_pass)


def test_a_padded_baseline_is_reckoned_without_its_padding(lane: LaneMetrics) -> None:
    padded, plain = plain_lane(list(range(1, 12)), 0.8), plain_lane(list(range(1, 12)), 0.4)
    both, other = compare(padded, lane, padding=2.0), compare(plain, lane)
    assert both.speedup == pytest.approx(other.speedup)
    assert both.end_to_end_speedup == pytest.approx(other.end_to_end_speedup)
    assert both.break_even_tokens_per_pass == pytest.approx(other.break_even_tokens_per_pass)


@pytest.mark.parametrize(
    ("plain_seconds", "speed"),
    [(0.1551, Speed.SLOWER), (0.1553, Speed.EQUAL), (0.1647, Speed.EQUAL), (0.1649, Speed.FASTER)],
)
def test_the_verdict_on_speed_turns_at_three_per_cent(plain_seconds: float, speed: Speed, lane: LaneMetrics) -> None:
    assert compare(plain_lane(list(range(1, 12)), plain_seconds), lane).speed is speed


def test_a_near_tie_is_a_tie_and_a_wide_gap_is_a_fault() -> None:
    lanes = plain_lane([1, 2, 3, 4]), LaneMetrics.of([first(), round_of("AR", [2, 9]), round_of("R", [4])])
    assert (compare(*lanes).identical, compare(*lanes).first_difference) == (False, 2)
    assert compare(*lanes).sameness is Sameness.UNEXPLAINED
    tie = compare(*lanes, parting=Parting(2, 3, 9, 0.06, tie=True))
    assert (tie.sameness, tie.speed) == (Sameness.ROUNDING_TIE, Speed.FASTER)
    fault = compare(*lanes, parting=Parting(2, 3, 9, 1.9, tie=False))
    assert (fault.sameness, fault.speed) == (Sameness.FAULT, Speed.FAULT)


def test_where_bits_are_promised_no_difference_is_excused() -> None:
    lanes = plain_lane([1, 2, 3, 4]), LaneMetrics.of([first(), round_of("AR", [2, 9]), round_of("R", [4])])
    for parting in (None, Parting(2, 3, 9, 1e-7, tie=True), Parting(2, 3, None, None, tie=False)):
        both = compare(*lanes, bits=True, parting=parting)
        assert (both.sameness, both.speed) == (Sameness.FAULT, Speed.FAULT)
    both = compare(*lanes, promised=False, bits=True)  # rejection draws other words, whatever the bits
    assert (both.sameness, both.speed) == (Sameness.SAME_DISTRIBUTION, Speed.FASTER)


def test_bit_identical_is_said_only_where_it_was_promised() -> None:
    same = plain_lane([1, 2, 3]), plain_lane([1, 2, 3])
    assert compare(*same, bits=True).sameness is Sameness.BIT_IDENTICAL
    assert compare(*same, bits=False).sameness is Sameness.IDENTICAL
    assert compare(*same, promised=False, bits=True).sameness is Sameness.SAME_DISTRIBUTION


def test_under_rejection_identity_is_neither_claimed_nor_denied() -> None:
    both = compare(plain_lane([1, 2, 3]), plain_lane([1, 5, 3]), promised=False)
    assert both.identical is None
    assert both.sameness is Sameness.SAME_DISTRIBUTION
    assert both.speed is not Speed.FAULT


def test_a_lane_that_drafted_nothing_gets_no_speedup_verdict() -> None:
    assert compare(plain_lane([1, 2, 3]), plain_lane([1, 2, 3])).speed is Speed.NO_SPECULATION


def test_a_lane_whose_server_does_not_say_what_it_drafted_is_not_said_to_have_drafted_nothing() -> None:
    step = Step((Token(1, Origin.UNKNOWN),), draft_seconds=0.0, verify_seconds=1.0, other_seconds=0.0)
    assert compare(plain_lane([1, 1, 1]), LaneMetrics.of([step] * 3)).speed is not Speed.NO_SPECULATION


def test_a_lane_that_ends_too_soon_differs_and_one_that_was_stopped_does_not() -> None:
    long, short = plain_lane([1, 2, 3, 4]), plain_lane([1, 2])
    assert compare(long, short).first_difference == 2
    assert compare(short, long).first_difference == 2
    for stop in (None, Stop.STOPPED):
        short.stop = stop
        assert compare(long, short).identical is True
        assert compare(long, short).compared == 2


def test_nothing_is_identical_before_anything_is_emitted() -> None:
    nothing = compare(LaneMetrics(), LaneMetrics())
    assert (nothing.identical, nothing.sameness, nothing.speed) == (None, None, None)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_the_first_difference_is_where_the_texts_first_differ(a: list[int], b: list[int]) -> None:
    both: Comparison = compare(plain_lane(a), plain_lane(b))
    place = both.first_difference
    if place is None:
        assert a == b
    else:
        assert a[:place] == b[:place]
        assert a[place : place + 1] != b[place : place + 1]


@pytest.mark.parametrize(
    ("rule", "temperature", "promised"),
    [
        (Rule.SHARED_NOISE, 0.8, True),
        (Rule.REJECTION, 0.8, False),
        (Rule.BLOCK, 0.8, False),
        (Rule.REJECTION, 0.0, True),
        (Rule.BLOCK, 0.0, True),
    ],
)
def test_what_is_promised_depends_on_the_rule(rule: Rule, temperature: float, promised: bool) -> None:
    assert identity_promised(rule, temperature) is promised


def test_plain_steps_are_counted_by_why_and_giving_up_by_where() -> None:
    token = (Token(1, Origin.TARGET),)
    whys = [Why.PREFILL, Why.NO_MATCH, Why.DOES_NOT_PAY, Why.DOES_NOT_PAY, Why.FALLBACK, Why.FALLBACK]
    lane = LaneMetrics.of(
        Step(token, why=why, draft_seconds=0.0, verify_seconds=1.0, other_seconds=0.0) for why in whys
    )
    assert lane.steps_without_draft == {Why.NO_MATCH: 1, Why.DOES_NOT_PAY: 2, Why.FALLBACK: 2}
    assert lane.fell_back_at == 4, "tokens that stood before"


def test_the_cost_model_is_what_the_two_lanes_measured() -> None:
    plain = plain_lane([1, 2, 3], seconds=0.2)
    rounds = [round_of("AR", [2, 3], (0.04, 0.22, 0.01)), round_of("", [4], (0.0, 0.2, 0.01))]
    model = cost_model(plain, LaneMetrics.of([first(), *rounds]))
    assert (model.alpha, model.drafts) == (0.5, 0.5)
    assert model.c == pytest.approx(0.04 / 2 / 0.2) and model.o == pytest.approx(0.02 / 2 / 0.2)
    assert model.slope == pytest.approx(0.05), "1.1 plain steps for two drafted tokens"
    assert cost_model(plain, LaneMetrics.of([first(), *rounds]), padding=2.0).c == pytest.approx(2 * model.c)


def test_there_is_no_cost_model_without_a_plain_step_or_a_judged_draft() -> None:
    drafted = LaneMetrics.of([first(), round_of("A", [2, 3])])
    assert cost_model(LaneMetrics(), drafted) is None
    assert cost_model(plain_lane([1, 2]), plain_lane([1, 2])) is None
