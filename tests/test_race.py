"""The race is fair, stops at once and refuses what cannot be run."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdemo import race as race_module
from specdemo.decoding.faults import DecodingFault
from specdemo.decoding.given_up import GivenUp, asking
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import PREFILL_CHUNK
from specdemo.decoding.steps import DraftLength, Origin, Rule, Step, Stop, Token
from specdemo.drafters.model import ModelDrafter
from specdemo.race import Lane, LaneStep, Mode, Request, RequestRefused, check, race
from tests.threads import one_thread  # noqa: F401
from tests.toy_pair import CHAIN, Broken, ToyPair

REQUEST = Request(prompt_ids=(1, 2, 3), max_new_tokens=20, gamma=3)
REQUEST_FIXED = replace(REQUEST, params=SamplingParams(temperature=1.0), max_new_tokens=50)


def lane_of(seconds: list[float], log: list[str], name: str) -> Iterator[Step]:
    """A lane whose steps take these seconds; it writes into the log what becomes of it."""
    try:
        for i, s in enumerate(seconds):
            log.append(name)
            stop = Stop.BUDGET if i == len(seconds) - 1 else None
            token = Token(i, Origin.TARGET)
            yield Step((token,), draft_seconds=s / 2, verify_seconds=s / 4, other_seconds=s / 4, stop=stop)
    finally:
        log.append(f"{name} closed")


def raced(seconds: dict[Lane, list[float]], mode: Mode, log: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator:
    monkeypatch.setattr(
        race_module,
        "lanes",
        lambda pair, request: {lane: lane_of(s, log, lane) for lane, s in seconds.items()},
    )
    return race(ToyPair(), replace(REQUEST, mode=mode))


SECONDS = st.lists(st.floats(1e-4, 10), min_size=1, max_size=15)


@settings(max_examples=100, deadline=None)
@given(baseline=SECONDS, speculative=SECONDS)
def test_the_lane_whose_own_clock_is_behind_is_advanced(baseline: list[float], speculative: list[float]) -> None:
    seconds = {Lane.BASELINE: baseline, Lane.SPECULATIVE: speculative}
    clocks, left = dict.fromkeys(Lane, 0.0), {lane: len(s) for lane, s in seconds.items()}
    with pytest.MonkeyPatch.context() as patch:
        for event in race_events(seconds, patch):
            assert clocks[event.lane] <= min(clocks[lane] for lane in Lane if left[lane])
            clocks[event.lane] += event.step.seconds
            left[event.lane] -= 1
    assert not any(left.values())


def test_what_a_start_still_costs_the_machine_is_never_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {Lane.BASELINE: [1.0, 1.0], Lane.SPECULATIVE: [1.0, 1.0]}
    order = [event.lane for event in raced(seconds, Mode.RACED, [], monkeypatch)]
    assert order == [Lane.SPECULATIVE, Lane.BASELINE] * 2


def race_events(seconds: dict[Lane, list[float]], patch: pytest.MonkeyPatch) -> Iterator:
    return raced(seconds, Mode.RACED, [], patch)


def test_one_after_another_is_the_baseline_and_then_the_speculative_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {Lane.BASELINE: [5.0, 1.0, 1.0], Lane.SPECULATIVE: [0.1, 0.1]}
    order = [event.lane for event in raced(seconds, Mode.ONE_AFTER_ANOTHER, [], monkeypatch)]
    assert order == [Lane.BASELINE] * 3 + [Lane.SPECULATIVE] * 2


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("taken", range(1, 9))
def test_closing_stops_both_lanes_without_another_step(mode: Mode, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    seconds = {Lane.BASELINE: [1.0] * 5, Lane.SPECULATIVE: [0.7] * 6}
    events = raced(seconds, mode, log, monkeypatch)
    for _ in range(taken):
        next(events)
    events.close()
    steps = [entry for entry in log if not entry.endswith("closed")]
    assert len(steps) == taken
    begun = set(steps)
    assert {entry for entry in log if entry.endswith("closed")} == {f"{lane} closed" for lane in begun}


def test_a_lane_that_fails_stops_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def failing() -> Iterator[Step]:
        yield from lane_of([1.0], log, "failing")
        raise RuntimeError("broken")

    broken = (replace(step, stop=None) for step in failing())
    monkeypatch.setattr(
        race_module, "lanes", lambda *_: {Lane.BASELINE: broken, Lane.SPECULATIVE: lane_of([9.0] * 5, log, "other")}
    )
    with pytest.raises(RuntimeError, match="broken"):
        list(race(ToyPair(), REQUEST))
    assert log[-1] == "other closed"


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("rule", Rule)
def test_a_real_race_runs_both_lanes_to_their_ends(mode: Mode, rule: Rule) -> None:
    request = replace(REQUEST, rule=rule, mode=mode, params=SamplingParams(temperature=1.0, seed=5))
    events = list(race(ToyPair(), request))
    texts = {lane: [t.id for e in events if e.lane is lane for t in e.step.tokens] for lane in Lane}
    assert {len(ids) for ids in texts.values()} == {20}
    if rule is Rule.SHARED_NOISE:
        assert texts[Lane.BASELINE] == texts[Lane.SPECULATIVE]
    for lane in Lane:
        assert [e.step.stop for e in events if e.lane is lane][-1] is Stop.BUDGET
    for event in events:
        assert pickle.loads(pickle.dumps(event)) == event


@pytest.mark.parametrize("draft_length", DraftLength)
def test_the_draft_length_policy_moves_no_word_and_starts_anew_in_every_race(draft_length: DraftLength) -> None:
    request = replace(REQUEST, params=SamplingParams(temperature=1.0), draft_length=draft_length, max_new_tokens=50)
    pair = ToyPair()
    fixed, moved, again = (
        [t.id for e in race(pair, asked) if e.lane is Lane.SPECULATIVE for t in e.step.tokens]
        for asked in (REQUEST_FIXED, request, request)
    )
    assert fixed == moved == again
    first = [next(e.step for e in race(pair, request) if e.lane is Lane.SPECULATIVE and e.step.drafted) for _ in "ab"]
    assert first[0].gamma == first[1].gamma > 0


def test_the_next_race_owes_nothing_to_one_that_was_stopped() -> None:
    pair, fresh = ToyPair(), ToyPair()
    stopped = race(pair, replace(REQUEST, prompt_ids=(4, 4), params=SamplingParams(temperature=1.0)))
    for _ in range(5):
        next(stopped)
    stopped.close()
    again, expected = ([(e.lane, e.step.tokens) for e in sorted_by_lane(race(p, REQUEST))] for p in (pair, fresh))
    assert again == expected


def sorted_by_lane(events: Iterator) -> list:
    return sorted(events, key=lambda event: event.lane)


# --- check -----------------------------------------------------------------------------------------------------------

ABSURD = (
    st.sampled_from(["", "1", "nan", [], {}, b"5", 1j, math.nan, math.inf, -math.inf, -1, -0.5, True, 10**400])
    | st.integers(min_value=10**19)
    | st.integers(max_value=-(2**63) - 1)
    | st.just(10**6000)
    | st.text(max_size=60)
)
NUMBERS = [
    "temperature", "draft_temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "gamma",
    "max_new_tokens",
]  # fmt: skip


def with_number(name: str, value: object) -> Request:
    if name in SamplingParams.__slots__:
        return replace(REQUEST, params=replace(REQUEST.params, **{name: value}))
    return replace(REQUEST, **{name: value})


def assert_refused(request: Request) -> None:
    with pytest.raises(RequestRefused) as refused:
        check(ToyPair(), request)
    sentence = str(refused.value)
    assert sentence[0].isupper() and sentence.endswith(".") and len(sentence) < 200


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(NUMBERS), value=ABSURD)
def test_an_absurd_number_is_refused_with_a_sentence(name: str, value: object) -> None:
    if name == "seed" and type(value) is int and -(2**63) <= value < 2**63:
        check(ToyPair(), with_number(name, value))
    else:
        assert_refused(with_number(name, value))


@pytest.mark.parametrize("name", [n for n in NUMBERS if n != "draft_temperature"])
def test_a_missing_number_is_refused(name: str) -> None:
    assert_refused(with_number(name, None))


@pytest.mark.parametrize("name", ["top_k", "seed", "gamma", "max_new_tokens"])
def test_a_fraction_is_refused_where_things_are_counted(name: str) -> None:
    assert_refused(with_number(name, 2.5))
    assert_refused(with_number(name, 2.0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 5.01), ("temperature", 1e-5), ("draft_temperature", 0.009), ("top_k", 1_000_001), ("top_p", 0),
        ("top_p", 1.001), ("min_p", 1.1), ("repetition_penalty", 0), ("repetition_penalty", 10.5), ("seed", 2**63),
        ("gamma", 17), ("gamma", -1), ("max_new_tokens", 0), ("max_new_tokens", 8193),
    ],
)  # fmt: skip
def test_a_number_just_outside_is_refused(name: str, value: float) -> None:
    assert_refused(with_number(name, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0), ("temperature", 5), ("draft_temperature", None), ("draft_temperature", 0), ("top_k", 0),
        ("top_p", 1), ("min_p", 0), ("min_p", 1), ("repetition_penalty", 0.1), ("seed", -(2**63)), ("seed", 2**63 - 1),
        ("gamma", 0), ("gamma", 16), ("max_new_tokens", 1), ("max_new_tokens", 8192),
    ],
)  # fmt: skip
def test_a_number_at_the_edge_runs(name: str, value: float) -> None:
    request = with_number(name, value)
    check(ToyPair(), request)
    assert list(race(ToyPair(), replace(request, max_new_tokens=min(request.max_new_tokens, 6))))


@pytest.mark.parametrize("request_", [
    replace(REQUEST, prompt_ids=()),
    replace(REQUEST, prompt_ids=(1,) * 64),
    replace(REQUEST, prompt_ids=(1,) * 100),
    replace(REQUEST, stop_strings=("x",) * 9),
    replace(REQUEST, rule="rejection"),
    replace(REQUEST, rule=None),
    replace(REQUEST, mode="raced"),
    replace(REQUEST, draft_length="fixed"),
])  # fmt: skip
def test_what_no_lane_can_run_is_refused(request_: Request) -> None:
    assert_refused(request_)


def test_a_prompt_that_leaves_room_for_one_token_runs() -> None:
    events = list(race(ToyPair(), replace(REQUEST, prompt_ids=(1,) * 63)))
    assert [len(e.step.tokens) for e in events] == [1, 1]
    assert {e.step.stop for e in events} == {Stop.CONTEXT}


def test_a_refused_race_starts_no_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_module, "lanes", lambda *_: pytest.fail("a lane was started"))
    with pytest.raises(RequestRefused):
        next(race(ToyPair(), replace(REQUEST, prompt_ids=())))


def test_lanes_share_no_runner() -> None:
    pair = ToyPair()
    events = race(pair, REQUEST)
    lengths = [(pair.target.length, pair.target_twin.length) for _ in events]
    assert all(a[0] <= b[0] and a[1] <= b[1] + 3 for a, b in pairwise(lengths))
    assert pair.target.ids == pair.target_twin.ids[: len(pair.target.ids)]


def until_the_fault(pair: ToyPair, said: str) -> list[LaneStep]:
    """Everything that the race yields before it raises."""
    seen: list[LaneStep] = []
    with pytest.raises(DecodingFault, match=said):
        seen.extend(race(pair, REQUEST))
    return seen


def test_a_broken_draft_stops_its_lane_and_not_the_other() -> None:
    pair = ToyPair(drafter=ModelDrafter(Broken(CHAIN)))
    seen = until_the_fault(pair, "^The draft model's output is not a number, so this lane stops here")
    lanes = {lane: [one.step for one in seen if one.lane is lane] for lane in Lane}
    assert lanes[Lane.BASELINE][-1].stop is Stop.BUDGET and len(lanes[Lane.BASELINE]) == 20
    assert 0 < len(lanes[Lane.SPECULATIVE]) < 20 and lanes[Lane.SPECULATIVE][-1].stop is None


def test_a_broken_target_stops_both_lanes() -> None:
    pair = ToyPair(target=Broken(CHAIN), target_twin=Broken(CHAIN))
    seen = until_the_fault(pair, "^The target model's output is not a number")
    assert {one.lane for one in seen} == set(Lane) and not any(one.step.stop for one in seen)


@pytest.mark.parametrize("lane", Lane)
def test_a_prompt_is_read_no_further_than_a_chunk_for_who_has_given_up(lane: Lane) -> None:
    pair = ToyPair(context=5 * PREFILL_CHUNK)
    runner = {Lane.BASELINE: pair.target, Lane.SPECULATIVE: pair.target_twin}[lane]
    long = replace(REQUEST, prompt_ids=(1, 2) * 2 * PREFILL_CHUNK)
    with asking(lambda: runner.length == PREFILL_CHUNK), pytest.raises(GivenUp):
        list(race(pair, long, only=lane))
    assert runner.length == PREFILL_CHUNK
    assert len(list(race(pair, long, only=lane))) > 1, "the next run is another one"


def test_nor_does_a_draft_model_read_it() -> None:
    pair = ToyPair(context=5 * PREFILL_CHUNK)
    long = replace(REQUEST, prompt_ids=(1, 2) * PREFILL_CHUNK)
    target = pair.target_twin
    with asking(lambda: target.length == len(long.prompt_ids)), pytest.raises(GivenUp):
        list(race(pair, long, only=Lane.SPECULATIVE))
    assert pair.drafter.runner.length == 0
