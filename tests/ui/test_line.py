"""The line before the device: first come, first served, of bounded length, and nobody who has left holds a place."""

from __future__ import annotations

import threading

import pytest

from specdemo.ui import line as module
from specdemo.ui.line import Line, Place, TurnedAway
from specdemo.ui.visitors import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time, which a test moves."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_who_came_first_is_served_first() -> None:
    line = Line(9)
    tickets = [line.enter() for _ in range(4)]
    for ticket in tickets:
        assert [line.wait(one, 0) for one in tickets[tickets.index(ticket) :]] == [True] + [False] * (
            3 - tickets.index(ticket)
        )
        line.leave(ticket)
        assert sum(one.turn.is_set() for one in tickets[tickets.index(ticket) + 1 :]) <= 1, "the others sleep on"
    assert len(line) == 0


def test_who_leaves_frees_the_place_behind_at_once() -> None:
    line = Line(9)
    first, second, third = (line.enter() for _ in range(3))
    line.leave(second)
    assert line.place(third) == Place(before=1)
    begun = threading.Event()
    waiting = threading.Thread(target=lambda: line.wait(third, 30) and begun.set())
    waiting.start()
    line.leave(first)
    assert begun.wait(10)
    waiting.join(10)


def test_the_wait_is_what_is_left_of_the_run_under_way_and_the_usual_time_of_those_between(clock: list[float]) -> None:
    line = Line(9)
    first, second = line.enter(), line.enter()
    assert line.place(second) == Place(1, None), "no run has ended yet"
    clock[0] += 10
    line.leave(first)
    third, fourth = line.enter(), line.enter()
    clock[0] += 4
    assert line.place(third) == Place(1, 6) and line.place(fourth) == Place(2, 16)
    clock[0] += 60
    assert line.place(third) == Place(1, 0)


def test_a_full_line_and_a_greedy_visitor_are_turned_away_with_a_sentence() -> None:
    line = Line(2, most_each=1)
    line.enter("a"), line.enter("a")
    with pytest.raises(TurnedAway) as away:
        line.enter("a")
    assert away.value.reason == ("refused.each", {"n": "2"})
    last = line.enter("b")
    with pytest.raises(TurnedAway) as away:
        line.enter("c")
    assert away.value.reason == ("refused.full", {"n": "2"})
    line.leave(last)
    line.enter("c")


def test_who_is_turned_away_for_want_of_room_has_begun_no_run() -> None:
    line = Line(1, pace=Pace(2))
    first, second = line.enter("a"), line.enter("b")
    with pytest.raises(TurnedAway) as away:
        line.enter("a")
    assert away.value.reason == ("refused.full", {"n": "1"})
    line.leave(first), line.leave(second)
    line.leave(line.enter("a"))
    with pytest.raises(TurnedAway) as away:
        line.enter("a")
    assert away.value.reason[0] == "refused.often" and not len(line)


def test_who_asks_for_too_many_places_of_their_own_has_asked_too_often_in_the_end() -> None:
    line = Line(9, most_each=1, pace=Pace(3))
    line.enter("a"), line.enter("a")
    for key in ("refused.each", "refused.often"):
        with pytest.raises(TurnedAway) as away:
            line.enter("a")
        assert away.value.reason[0] == key


def test_as_many_of_a_visitor_may_wait_whoever_has_the_device() -> None:
    line = Line(9, most_each=2)
    line.enter("b"), line.enter("a"), line.enter("a")
    with pytest.raises(TurnedAway) as away:
        line.enter("a")
    assert away.value.reason == ("refused.each", {"n": "2"})


def test_loading_stands_in_the_line_and_is_no_run(clock: list[float]) -> None:
    line = Line(1)
    loading, run = line.enter(counts=False), line.enter()
    clock[0] += 50
    line.leave(loading)
    assert line.wait(run, 0)
    assert line.place(line.enter()) == Place(1, None)
