"""The log of runs: what a line holds and does not hold, how files are set aside, and what a full disk costs."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from threading import Thread

import pytest

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Drafted, Origin, Step, Stop, Token, Verdict, Why
from specdemo.race import Lane, Request
from specdemo.recording import Known, RaceRecord, Wrote
from specdemo.request_log import RequestLog, entry_of, files_of, lines_of

SECRET = "my password is swordfish"


def race(prompt: str = SECRET) -> RaceRecord:
    """Two plain steps of 0.1 s beside one of 0.12 s that drafted two and had one accepted."""
    record = RaceRecord(prompt, Request((1, 2, 3), SamplingParams(0.5, seed=7), gamma=2), Known(pair={"target": "T"}))
    first = Step((Token(5, Origin.TARGET),), why=Why.PREFILL, draft_seconds=0.0, verify_seconds=0.2, other_seconds=0.0)
    drafted = (Drafted(6, Verdict.ACCEPTED), Drafted(9, Verdict.REFUSED))
    times = {"draft_seconds": 0.01, "verify_seconds": 0.1, "other_seconds": 0.01}
    both = (Token(6, Origin.ACCEPTED), Token(7, Origin.CORRECTED))
    steps = {
        Lane.BASELINE: [
            first,
            *(
                Step(
                    (Token(i, Origin.TARGET),), why=Why.PLAIN, draft_seconds=0.0, verify_seconds=0.1, other_seconds=0.0
                )
                for i in (6, 7)
            ),
        ],
        Lane.SPECULATIVE: [first, Step(both, drafted, 2, stop=Stop.BUDGET, **times)],
    }
    for lane, of in steps.items():
        for step in of:
            record.add(Wrote(lane, step, (SECRET,) * len(step.tokens), ("word",) * len(step.drafted)))
    return record


def test_a_line_holds_what_was_measured() -> None:
    entry = entry_of(race(), "done", "page", "nightly")
    assert (entry["kind"], entry["tag"], entry["outcome"], entry["source"]) == ("chat", "nightly", "done", "page")
    assert (entry["drafted"], entry["accepted"], entry["acceptance"]) == (2, 1, 0.5)
    assert (entry["E"], entry["policy"], entry["gamma"], entry["rule"]) == (2.0, "fixed", 2, "shared noise")
    assert entry["c"] == pytest.approx(0.05), "a drafted token takes 5 ms, a plain step 100"
    assert (entry["draft seconds"], entry["verify seconds"]) == (0.01, 0.1)
    assert entry["speedup"] == pytest.approx(0.2 / 0.12)
    assert entry["sampling"]["temperature"] == 0.5 and entry["sampling"]["seed"] == 7
    assert entry["lanes"]["baseline"]["tokens/s"] == pytest.approx(10)
    assert entry["lanes"]["speculative"]["stop"] == "token budget"
    assert entry["acceptance per position"] == [1.0, 0.0]


def test_what_was_asked_is_kept_only_where_the_host_wants_it_and_what_was_answered_never() -> None:
    line = json.dumps(entry_of(race(), "done", "api"))
    assert "swordfish" not in line and "word" not in line.replace("keywords", "")
    told = entry_of(race("Name a fish."), "done", "api", prompt=True)
    assert told["prompt"] == "Name a fish." and SECRET not in json.dumps(told)


def test_a_tag_is_one_short_printable_line() -> None:
    assert entry_of(race(), "done", "api", "  a\x1b[31m\nb" + "c" * 99)["tag"] == "a [31m b" + "c" * 56


def test_a_race_that_never_wrote_is_a_line_too() -> None:
    entry = entry_of(RaceRecord("Hi", Request((1,))), "failed", "page")
    assert (entry["acceptance"], entry["speedup"], entry["c"], entry["texts"]) == (None, None, None, None)


def test_a_long_file_is_set_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "runs[1].jsonl", largest=120, kept=2)
    for n in range(9):
        assert log.write({"n": n, "filled": "x" * 30}) is None
    assert [one.name for one in files_of(log.path)] == ["runs[1].jsonl.2", "runs[1].jsonl.1", "runs[1].jsonl"]
    assert [json.loads(line)["n"] for line in lines_of(log.path)] == [4, 5, 6, 7, 8]


def test_lines_of_many_threads_and_writers_stay_whole(tmp_path: Path) -> None:
    logs = [RequestLog(tmp_path / "runs.jsonl", largest=2000, kept=50) for _ in range(2)]
    threads = [
        Thread(target=lambda log=log, i=i: [log.write({"n": 100 * i + n}) for n in range(40)])
        for i, log in enumerate(logs * 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads(line)["n"] for line in lines_of(logs[0].path)) == [
        100 * i + n for i in range(4) for n in range(40)
    ]


def test_a_full_disk_is_a_sentence_and_the_next_line_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = RequestLog(tmp_path / "runs.jsonl")
    with monkeypatch.context() as patched:
        if Path("/dev/full").exists():
            log.path.symlink_to("/dev/full")
        else:
            patched.setattr("logging.StreamHandler.flush", lambda handler: _full())
        assert "could not be logged" in (said := log.write({"n": 1})) and os.strerror(errno.ENOSPC) in said
    log.path.unlink(missing_ok=True)
    assert log.write({"n": 2}) is None
    assert json.loads(list(lines_of(log.path))[-1]) == {"n": 2}
    assert capsys.readouterr().err == ""


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_place_where_no_file_can_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "could not be logged" in RequestLog(tmp_path / "file" / "runs.jsonl").write({})
