"""What a page still knows of its runs: each visitor their own, the last few, and everything while they go on."""

from __future__ import annotations

import pytest

from specdemo.race import Lane, Request
from specdemo.recording import RaceRecord, Scribe
from specdemo.ui import runs as room
from specdemo.ui.runs import Run, Runs
from tests.ui.synthetic import END, Synthetic, _Speller


def a_record(script: Synthetic | None = None) -> RaceRecord:
    """A race of the script, spelled."""
    script = script or Synthetic()
    request = Request(prompt_ids=(1, 2), max_new_tokens=400)
    record = RaceRecord("Tell me", request)
    scribes = {lane: Scribe(lane, _Speller(script.words), script.words.__getitem__) for lane in Lane}
    for one in script.race(request):
        record.add(scribes[one.lane].spell(one.step))
    return record


def test_a_visitor_finds_their_own_runs_and_nobody_elses() -> None:
    runs, run = Runs(), Run(a_record())
    runs.keep("somebody", run)
    assert runs.find("somebody", run.number) is run
    assert runs.find("another", run.number) is None
    assert runs.find("somebody", run.number + 1) is None


def test_recorded_runs_are_everybodys() -> None:
    runs = Runs([a_record()])
    assert runs.find("anybody", runs.recorded[0].number) is runs.recorded[0]


def test_only_the_last_runs_are_kept() -> None:
    runs, made = Runs(), [Run(RaceRecord("", Request(()))) for _ in range(room.RUNS_KEPT + 2)]
    for run in made:
        runs.keep("somebody", run)
    assert [runs.find("somebody", run.number) for run in made] == [None, None, *made[2:]]


def test_a_replay_takes_no_place_in_the_table_and_is_found_while_it_stands_in_the_panes() -> None:
    runs, run, replay = Runs(), Run(RaceRecord("", Request(()))), Run(RaceRecord("", Request(())), listed=False)
    runs.keep("somebody", run)
    runs.keep("somebody", replay)
    assert runs.find("somebody", replay.number) is replay and runs.find("somebody", run.number) is run
    runs.keep("somebody", run)
    assert runs.find("somebody", replay.number) is None


def test_visitors_make_room_for_newer_ones_and_go_when_they_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = Runs(), Run(RaceRecord("", Request(())))
    runs.keep("first", run)
    for i in range(room.VISITORS_KEPT):
        assert runs.find(f"stranger {i}", run.number) is None
    assert runs.find("first", run.number) is run, "who only asks takes nobody's room"
    for i in range(room.VISITORS_KEPT):
        runs.keep(f"visitor {i}", Run(RaceRecord("", Request(()))))
    assert runs.find("first", run.number) is None
    runs.keep("idle", run)
    now = room.time.monotonic()
    monkeypatch.setattr(room.time, "monotonic", lambda: now + room.IDLE_SECONDS + 1)
    runs.find("another", 0)
    assert runs.find("idle", run.number) is None


def test_a_record_spells_every_token_and_draft_and_gives_a_file() -> None:
    script = Synthetic()
    record = a_record(script)
    for lane in Lane:
        trace = getattr(record.file(), lane)
        assert trace.steps == tuple(one.step for one in script.steps if one.lane is lane)
        assert "".join(trace.texts) == script.text
    spellings = record.file().speculative.spellings
    assert spellings[script.id_of(END)] == END
    drafted = [one for step in record.lanes[Lane.SPECULATIVE].steps for one in step.drafted]
    assert all(spellings[one.id] == script.words[one.id] for one in drafted)
    assert record.comparison.identical
