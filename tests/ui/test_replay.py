"""A finished race plays again: the same steps at their own times, whatever the speed; other files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from specdemo import trace_files
from specdemo.decoding.steps import Stop
from specdemo.race import Lane
from specdemo.recording import RaceRecord, Wrote
from specdemo.trace_files import TraceFileRefused
from specdemo.ui import replay
from specdemo.ui.replay import Player, read, recorded_runs
from specdemo.ui.runs import Run
from specdemo.ui.show import Show
from specdemo.ui.worker import Began, Ended, Event, Paced
from tests.ui.synthetic import Synthetic
from tests.ui.test_runs import a_record


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(replay.time, "monotonic", lambda: self.now)

    def drain(self, player: Player, seconds: float) -> list[Event]:
        self.now += seconds
        return player.drain(0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def steps_in(events: list[Event]) -> list[Wrote]:
    return [event for event in events if isinstance(event, Wrote)]


@pytest.mark.parametrize("speed", replay.SPEEDS)
def test_each_step_comes_when_its_lanes_clock_says(clock: Clock, speed: float) -> None:
    record = a_record()
    player = Player(record, speed).start()
    assert clock.drain(player, 0.0)[:2] == [Began(record.request, record.known), Paced(speed)]
    shown: dict[Lane, int] = dict.fromkeys(Lane, 0)
    for _ in range(10):
        for wrote in steps_in(clock.drain(player, 0.1)):
            shown[wrote.lane] += 1
    for lane in Lane:
        due = [at for at, _ in record.lanes[lane].points if at <= 10 * 0.1 * speed + 1e-9]
        assert abs(shown[lane] - len(due)) <= 1


def test_all_of_it_comes_in_order_and_then_the_end(clock: Clock) -> None:
    record = a_record()
    player = Player(record).start()
    events = [event for _ in range(4) for event in clock.drain(player, 1e6)]
    for lane in Lane:
        assert [wrote for wrote in steps_in(events) if wrote.lane is lane] == record.lanes[lane].written
    assert Ended(False, None) in events


def test_another_speed_goes_on_from_where_it_is(clock: Clock) -> None:
    record = a_record()
    player = Player(record).start()
    clock.drain(player, 0.0)
    first = steps_in(clock.drain(player, 1.0))
    player.speed = 0.25
    events = clock.drain(player, 1.0)
    assert Paced(0.25) in events and 0 < len(steps_in(events)) < len(first)


def test_stop_ends_it(clock: Clock) -> None:
    player = Player(a_record()).start()
    clock.drain(player, 0.0)
    player.stop.set()
    assert clock.drain(player, 1e6) == [Ended(stopped=True)]


def test_a_race_that_was_stopped_is_shown_as_stopped(clock: Clock) -> None:
    record = a_record()
    for lane in record.lanes.values():
        lane.written.pop()
    stopped = RaceRecord("", record.request)
    for lane in record.lanes.values():
        for wrote in lane.written:
            stopped.add(wrote)
        stopped.lanes[lane.lane].stop()
    player = Player(stopped).start()
    clock.drain(player, 0.0)
    events = clock.drain(player, 1e6)
    assert events[-1] == Ended(stopped=True)
    assert steps_in(events)[-1].step.stop is Stop.STOPPED


def test_a_file_comes_back_as_the_record_it_was(clock: Clock) -> None:
    record = a_record()
    back = read(trace_files.dump(record.file()))
    assert back.file() == record.file()
    for lane in Lane:
        assert [w.texts for w in back.lanes[lane].written] == [w.texts for w in record.lanes[lane].written]
        assert [w.drafts for w in back.lanes[lane].written] == [w.drafts for w in record.lanes[lane].written]
        assert back.lanes[lane].written[-1].end == record.lanes[lane].written[-1].end != ""


def test_the_board_of_a_replay_says_so_and_withholds_the_accent(clock: Clock) -> None:
    record = a_record()
    record.known = Synthetic().engine().known(("ngram", "same"))
    player, show = Player(record, 0.5).start(), Show(Run(RaceRecord("", record.request), listed=False), replay_of=7)
    while not show.over:
        show.take(clock.drain(player, 100.0))
    board = json.loads(show.values[2])
    says, params = board["verdict"]
    assert says == "replay.says"
    assert params == {"speed": "@replay.0.5", "device": "Scripted processor ×2", "date": "#2026-05-14"}
    assert [key for key, _ in board["more"][:2]] == ["replay.asked", "verdict.faster"]
    assert board["wins"] is False and board["of"] == 7
    assert "row" not in board


def spoiled(change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(trace_files.dump(a_record(Synthetic(text="Two words.")).file()))
    change(document)
    return json.dumps(document)


def first(document: dict[str, Any]) -> dict[str, Any]:
    return document["speculative"]["steps"][1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: first(d).update(verify_seconds=None), "does not tell its times"),
        (lambda d: first(d).update(verify_seconds=-1.0), "does not tell its times"),
        (lambda d: first(d).update(verify_seconds="NaN"), "does not tell its times"),
        (lambda d: first(d).update(verify_seconds=5e-324), "less than a nanosecond"),
        (lambda d: first(d).update(verify_seconds=3000.0, draft_seconds=3000.0), "longer than 3600 seconds"),
        (lambda d: first(d)["tokens"][0].update(q="NaN"), "no number"),
        (lambda d: first(d)["drafted"][0].update(p="Infinity"), "no number"),
        (lambda d: first(d)["drafted"][0].update(p=-0.5), "negative"),
        (lambda d: first(d)["tokens"][0].update(id=-1), "no vocabulary"),
        (lambda d: first(d)["tokens"][0].update(id=10**30), "no vocabulary"),
        (lambda d: first(d).update(drafted=first(d)["drafted"] * 20), "at most 16"),
        (lambda d: first(d).update(gamma=99), "at most 16"),
        (lambda d: d.update(gamma=99), "draft length"),
        (lambda d: d.update(max_new_tokens=10**9), "settings that no race has"),
        (lambda d: d.update(padding=0.0), "padding"),
        (lambda d: d.update(padding=5e-324), "padding"),
        (lambda d: d.update(padding=1e300), "padding"),
        (lambda d: d.update(padding="NaN"), "padding"),
        (lambda d: d["baseline"].update(prompt_ids=[9]), "not asked the same"),
        (lambda d: d["baseline"].update(steps=[], texts=[]), "nothing to replay"),
        (lambda d: d.pop("speculative"), "the key is missing"),
        (lambda d: d.update(prompt=7), "At prompt"),
    ],
)
def test_a_file_that_cannot_be_shown_is_refused_with_a_sentence(change: Callable[..., object], said: str) -> None:
    with pytest.raises(TraceFileRefused, match=said):
        read(spoiled(change))


@pytest.mark.parametrize("data", ["", "{}", "[]", "null", "not json", "\x00", "x" * (replay.LARGEST + 1)])
def test_what_is_no_race_is_refused_with_a_sentence(data: str) -> None:
    with pytest.raises(TraceFileRefused, match=r"\.$"):
        read(data)


def test_the_recorded_runs_are_whole_small_and_one_of_them_loses() -> None:
    files = sorted(replay.FOLDER.glob("*.json"))
    runs = recorded_runs()
    assert len(runs) == len(files) >= 3
    assert all(path.stat().st_size < 400_000 for path in files)
    for run in runs:
        assert run.known.environment["date"].endswith("UTC") and run.known.environment["device"]
        assert run.prompt and run.comparison.speedup
        assert all(lane.metrics.stop not in (None, Stop.STOPPED) for lane in run.lanes.values())
    assert min(run.comparison.speedup for run in runs) < 1 < max(run.comparison.speedup for run in runs)
