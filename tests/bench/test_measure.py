"""Sides take turns, a repeat has one figure, the median counts, and whoever was busy meanwhile is named."""

from __future__ import annotations

from dataclasses import replace

from specdemo.bench.measure import Repeat, busy_of, interleave, warm_up
from specdemo.bench.results import Goal, Result
from specdemo.bench.sides import Prompt, Sample, Side
from specdemo.environment import Busy
from tests.bench.conftest import ScriptedWatch

PROMPTS = [Prompt("p", (1,)), Prompt("q", (2,))]


def sample(seconds: float, tokens: int = 11) -> Sample:
    return Sample(tuple(range(tokens)), first=1, seconds=seconds, whole_seconds=seconds + 1, passes=tokens - 1)


def logging_side(name: str, log: list[tuple[str, str]], seconds: float = 1.0) -> Side:
    def run(prompt: Prompt) -> Sample:
        log.append((name, prompt.name))
        return sample(seconds)

    return Side.of(name, run)


def test_sides_alternate_on_each_prompt_and_another_goes_first_in_each_repeat(nobody: ScriptedWatch) -> None:
    log: list[tuple[str, str]] = []
    interleave([logging_side("ours", log), logging_side("theirs", log)], PROMPTS, 2, nobody)
    first = [("ours", "p"), ("theirs", "p"), ("ours", "q"), ("theirs", "q")]
    second = [("theirs", "p"), ("ours", "p"), ("theirs", "q"), ("ours", "q")]
    assert log == first + second


def test_speed_counts_tokens_after_the_first_pass_over_all_prompts(nobody: ScriptedWatch) -> None:
    seconds = iter([1.0, 3.0])
    side = Side.of("one", lambda prompt: sample(next(seconds)))
    (repeat,) = interleave([side], PROMPTS, 1, nobody)
    assert repeat.speed("one") == 20 / 4
    assert repeat.whole_speed("one") == 22 / 6


def test_a_side_may_give_a_sample_for_each_lane(nobody: ScriptedWatch) -> None:
    side = Side("race", lambda prompt: {"left": sample(1.0), "right": sample(2.0)})
    (repeat,) = interleave([side], PROMPTS[:1], 1, nobody)
    assert (repeat.speed("left"), repeat.speed("right")) == (10.0, 5.0)


def test_a_repeat_beside_a_busy_process_names_it_and_the_others_do_not() -> None:
    intruder = Busy(42, "python train.py", 0.98)
    before_it_counts = [Busy(1, "earlier", 1.0)]
    watch = ScriptedWatch(before_it_counts, [], [], [intruder])
    quiet, noisy = interleave([logging_side("ours", [])], PROMPTS, 2, watch)
    assert quiet.busy == ()
    assert noisy.busy == (intruder,)
    busier = Repeat({}, (replace(intruder, share=0.99),))
    assert busy_of([busier, noisy, quiet]) == (str(busier.busy[0]),), "once, as it was at its busiest"


def test_the_warm_up_runs_every_side_on_every_prompt_once() -> None:
    log: list[tuple[str, str]] = []
    wrote = warm_up([logging_side("ours", log), logging_side("theirs", log)], PROMPTS)
    assert sorted(log) == sorted(wrote) and len(log) == 4


def test_the_median_of_the_repeats_is_held_to_the_goal() -> None:
    result = Result("a", "x", (1.0, 1.2, 9.0), Goal(at_least=1.1))
    assert result.value == 1.2 and result.reached
    assert not Result("a", "x", (1.0, 1.0, 9.0), Goal(at_least=1.1)).reached


def test_a_goal_may_have_two_bounds_and_includes_them() -> None:
    goal = Goal(at_least=0.97, at_most=1.03)
    assert [goal.reached_by(v) for v in (0.96, 0.97, 1.0, 1.03, 1.04)] == [False, True, True, True, False]


def test_a_result_with_a_fault_reaches_nothing() -> None:
    assert not Result("c", "x", (9.0,), Goal(at_least=1.5), faults=("drafts differ",)).reached
