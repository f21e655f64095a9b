"""The view of a log: groups, rolling means and alerts of invented runs whose answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdemo import cli
from specdemo.log_view import alerts_of, group, read


def run(n: int, accepted: int, **changed: Any) -> dict[str, Any]:
    """The n-th run, in the n-th minute: of ten drafted so many were accepted."""
    lanes = {"baseline": {"tokens/s": 10.0}, "speculative": {"tokens/s": 15.0}}
    return {
        "time": f"2026-05-14T{n // 60:02}:{n % 60:02}:00+00:00",
        "kind": "code",
        "tag": "",
        "outcome": "done",
        "drafter": "head",
        "gamma": 5,
        "sampling": {"temperature": 0.0},
        "drafted": 10,
        "accepted": accepted,
        "acceptance": accepted / 10,
        "E": 2.0,
        "c": 0.1,
        "speedup": 1.5,
        "lanes": lanes,
    } | changed


def written(folder: Path, *entries: Any) -> Path:
    path = folder / "runs.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in entries), "utf-8")
    return path


FELL = [run(n, 7 + n % 2 - n % 3 // 2) for n in range(20)] + [
    run(n, 3 + n % 2 - n % 3 // 2, sampling={"temperature": 1.0}) for n in range(20, 32)
]


def test_a_group_holds_the_means_of_all_and_of_the_last() -> None:
    found = group("code", "", [run(n, 8) for n in range(10)] + [run(n, 4) for n in range(10, 20)])
    assert (found.runs, found.acceptance, found.recent_acceptance) == (20, pytest.approx(0.6), pytest.approx(0.4))
    assert (found.speedup, found.tokens_a_pass, found.c, found.plain_rate) == (1.5, 2.0, 0.1, 10.0)


def test_a_drop_is_told_with_its_time_and_what_else_changed_then() -> None:
    (alert,) = alerts_of("code", "", FELL)
    assert (alert.figure, alert.runs) == ("Acceptance", 12)
    assert (alert.before, alert.now) == (pytest.approx(0.72, abs=0.02), pytest.approx(0.32, abs=0.02))
    assert alert.since == "2026-05-14 00:20:00"
    assert alert.changed == {"temperature": ["0.0", "1.0"]}
    assert str(alert).endswith("(12 runs); temperature changed from 0.0 to 1.0.")


def test_a_drop_that_came_with_another_server_says_so() -> None:
    moved = [run(n, 8, **{"speculative server": "one:1"}) for n in range(12)]
    moved += [run(n + 12, 3, **{"speculative server": "two:1"}) for n in range(12)]
    (alert,) = alerts_of("code", "", moved)
    assert alert.changed == {"speculative server": ["one:1", "two:1"]}


@pytest.mark.parametrize(
    "accepted",
    [
        [7] * 40,
        [3] * 20 + [7] * 20,  # it rose
        [7] * 20 + [6] * 20,  # by little
        [9, 1] * 20,  # it varies
        [7] * 37 + [1] * 3,  # too few runs to say
        [7] * 20 + [3] * 20 + [7] * 20,  # it has recovered
    ],
)
def test_there_is_no_alert_without_a_drop_that_lasts(accepted: list[int]) -> None:
    assert alerts_of("code", "", [run(n, a) for n, a in enumerate(accepted)]) == []


def test_a_slower_kind_is_an_alert_of_its_own() -> None:
    runs = [run(n, 7, speedup=1.5 if n < 10 else 1.0) for n in range(20)]
    (alert,) = alerts_of("code", "nightly", runs)
    assert str(alert).startswith("The speedup of code, tag nightly dropped from 1.50 to 1.00 since 2026-05-14 00:10:00")


def test_the_command_shows_groups_and_alerts_and_passes_over_other_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = [run(n, 5, kind="story", tag="a\x1b[31m") for n in range(3)]
    failed = run(0, 0, kind="maths", outcome="failed")
    path = written(tmp_path, *story, "no json", '{"time": 1}', "[" * 9999, "", *FELL, failed)
    assert cli.main(["log", str(path)]) == 0
    out, err = capsys.readouterr()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")]
    assert [row[:3] for row in rows[2:]] == [["code", "–", "32"], ["story", "a [31m", "3"]]
    assert "Acceptance of code dropped from 0.7" in out
    assert err == "3 lines are no entries of this log and were passed over.\n"
    assert cli.main(["log", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in found["groups"]] == ["code", "story"] and found["foreign_lines"] == 3
    assert found["alerts"][0]["since"] == "2026-05-14 00:20:00"


def test_files_that_were_set_aside_are_read_first_and_times_order_the_runs(tmp_path: Path) -> None:
    path = written(tmp_path, run(2, 1))
    path.with_name("runs.jsonl.1").write_text(json.dumps(run(3, 1)) + "\n" + json.dumps(run(1, 1)), "utf-8")
    path.with_name("runs.jsonl.lock").write_text("not a log", "utf-8")
    entries, foreign = read(path)
    assert [entry["time"][14:16] for entry in entries] == ["01", "02", "03"] and foreign == 0


def test_a_log_that_is_none_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["log", str(tmp_path / "gone.jsonl")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'gone.jsonl'} could not be read: No such file or directory.\n"
    assert cli.main(["log", str(written(tmp_path))]) == 2
    assert "holds no runs" in capsys.readouterr().err
