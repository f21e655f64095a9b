"""`lab tasks|sweep|batch` over two scripted servers: the rows, tables and files that a pair on this machine gives."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdemo import cli
from specdemo.lab.result import read
from specdemo.lab.served import SERVED, THEIRS
from specdemo.remote.facts import ARRIVALS, SERVER, Provenance
from specdemo.ui.text.below import recognise
from tests.remote.server import Script, serving, writing


@pytest.fixture
def servers() -> Iterator[tuple[Script, Script]]:
    with serving(writing()) as plain, serving(writing(accepted=2)) as other:
        yield plain, other


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps({"chat": [{"text": "Where is the cat?"}, {"text": "And now?"}]}))
    return file


def lab(servers: tuple[Script, Script], name: str, *options: str) -> int:
    urls = ["--baseline-url", servers[0].url, "--speculative-url", servers[1].url, "--timeout", "5"]
    return cli.main(["lab", name, *urls, "--max-new-tokens", "13", *options])


def test_tasks_over_servers_counts_what_they_tell(servers, prompts: Path, tmp_path: Path, capsys) -> None:
    files = {form: tmp_path / f"result.{form}" for form in ("json", "csv", "markdown")}
    kept = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    assert lab(servers, "tasks", "--prompts", str(prompts), *kept) == 0
    result = read(files["json"])
    assert result.done and len(result.rows) == 2 and "gammas" not in result.options
    row = result.rows[0]
    assert (row["γ"], row["told"], row["texts"]) == (THEIRS, Provenance.TOLD.value, "identical")
    assert (row["tokens"], row["passes"], row["drafted"], row["accepted"]) == (12, 4, 16, 8)
    assert (row["plain tokens"], row["plain passes"]) == (24, 24)  # before the speculative lane and after it
    out, text = capsys.readouterr().out, files["markdown"].read_text("utf-8")
    assert "γ of the server does best" in out and " pass " in out and " c " not in out
    assert "arrival times, network included" in text
    assert [one["γ"] for one in csv.DictReader(files["csv"].open(encoding="utf-8"))] == [THEIRS] * 2
    assert f"| {THEIRS} | {THEIRS} |" in text and "fixed" not in out
    assert row["clock"] == ARRIVALS
    asked = len(servers[0].asked)
    assert lab(servers, "tasks", "--prompts", str(prompts), "--json", str(files["json"])) == 0  # goes on with nothing
    assert not any(path == "/v1/completions" for path, _ in servers[0].asked[asked:])


def timed(script: Script, per_token: float, answers: int = 99) -> None:
    """It tells its own times, in ms, of so many answers."""
    untimed, left = script.stream, [answers]

    def stream(body: dict) -> tuple[int, str]:
        status, text = untimed(body)
        left[0] -= 1
        times = {"time_to_first_token_ms": 5.0, "generation_time_ms": per_token * (body["max_tokens"] - 1)}
        chunk = f"data: {json.dumps({'choices': [], 'metrics': times})}\n\n"
        return status, text.replace("data: [DONE]", chunk + "data: [DONE]") if left[0] >= 0 else text

    script.stream = stream


def test_the_clock_is_the_servers_own_where_both_tell_it(servers, prompts: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "result.json"
    for script, per_token in zip(servers, (10.0, 20.0), strict=True):
        timed(script, per_token)
    assert lab(servers, "tasks", "--prompts", str(prompts), "--json", str(file)) == 0
    for row in read(file).rows:
        assert row["clock"] == SERVER and row["plain s"] == pytest.approx(2 * 0.12)
        assert row["verify s"] == pytest.approx(0.24) and row["prefill s"] == pytest.approx(0.005)
    out = capsys.readouterr().out
    assert f"Clock of 2 of 2 rows: {SERVER}." in out and "0.50×" in out


def test_the_clock_is_that_of_arrivals_where_one_server_does_not_tell_it(servers, prompts, tmp_path, capsys) -> None:
    file = tmp_path / "result.json"
    timed(servers[0], 1e6)
    assert lab(servers, "tasks", "--prompts", str(prompts), "--json", str(file)) == 0
    assert all(row["clock"] == ARRIVALS and row["plain s"] < 100 for row in read(file).rows)
    assert f"Clock of 2 of 2 rows: {ARRIVALS}." in capsys.readouterr().out


def test_a_server_that_no_longer_tells_its_times_ends_the_run(servers, prompts, tmp_path, capsys) -> None:
    file = tmp_path / "result.json"
    timed(servers[0], 10.0, answers=3)  # the warm-up's, and the two of the first row
    timed(servers[1], 10.0)
    assert lab(servers, "tasks", "--prompts", str(prompts), "--json", str(file)) == 2
    said = capsys.readouterr().err
    assert "told its own times of earlier answers" in said and len(read(file).rows) == 1
    assert not isinstance(recognise(said.strip().splitlines()[-1]), str)  # known in every language


def test_sweep_asks_the_temperatures_and_nuclei_of_both_servers(servers, prompts: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "result.json"
    swept = ["--temperatures", "0,0.7", "--top-ps", "1,0.9", "--json", str(file)]
    assert lab(servers, "sweep", "--prompts", str(prompts), "--per-kind", "1", *swept) == 0
    rows = read(file).rows
    settings = [(row["temperature"], row["top-p"]) for row in rows]
    assert settings == [(0.0, 1.0), (0.0, 0.9), (0.7, 1.0), (0.7, 0.9)]
    assert [row["texts"] for row in rows] == ["identical"] * 2 + ["same distribution"] * 2
    asked = [body for path, body in servers[1].asked if path == "/v1/completions"]
    assert {(body["temperature"], body.get("top_p", 1)) for body in asked} == set(settings)
    assert "Acceptance" in capsys.readouterr().out


def test_batch_asks_so_many_at_once_and_says_where_it_stops_paying(servers, prompts, tmp_path: Path, capsys) -> None:
    file = tmp_path / "result.json"
    assert lab(servers, "batch", "--prompts", str(prompts), "--batches", "1,3", "--json", str(file)) == 0
    one, three = read(file).rows
    assert (one["batch"], three["batch"], three["requests"]) == (1, 3, 3)
    assert three["plain tokens"] == three["drafted tokens"] == 36
    assert (three["drafted"], three["accepted"], three["drafting passes"]) == (48, 24, 12)
    assert one["clock"] == three["clock"] == ARRIVALS  # requests at once share no clock of a server
    assert three["plain longest latency s"] >= three["plain latency s"] > 0 and three["parted"] == 0
    out = capsys.readouterr().out
    assert "Speculation" in out and "at 3" in out and "all are the same" in out and " parted " in out


def test_what_a_batch_drafted_comes_from_counters_only_where_no_other_request_was_counted(servers) -> None:
    from specdemo.lab.concurrency import _drafting
    from specdemo.lab.server_pair import Answers
    from specdemo.remote.counters import Counters

    mine = Answers([], 1.0, 0.1, [1.0], told=False, between=Counters(True, 3, 12, 6, (3, 2, 1, 0), 1))
    assert _drafting([mine]) == {"drafted": 12, "accepted": 6, "drafting passes": 3}
    shared = Answers([], 1.0, 0.1, [1.0], told=False, between=None)
    assert _drafting([mine, shared]) == {"drafted": None, "accepted": None, "drafting passes": None}


def test_rows_that_nobody_told_of_are_said(prompts: Path, tmp_path: Path, capsys) -> None:
    silent = writing(accepted=2)
    silent.stream = lambda body: (200, writing(accepted=2).stream(body)[1].replace('"metrics"', '"unknown"'))
    silent.metrics = []
    with serving(writing()) as plain, serving(silent):
        assert lab((plain, silent), "tasks", "--prompts", str(prompts)) == 0
    assert "In 2 of 2 rows no server told who wrote each token" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["tasks", "--gammas", "3"], "--gammas: how servers draft is their own"),
        (["sweep", "--rules", "block"], "--rules: how servers draft"),
        (["batch", "--gamma", "3"], "--gamma: how servers draft"),
        (["tasks", "--drafter", "ngram"], "--drafter: how a server drafts"),
        (["tasks", "--kinds", "nonsense"], "There is no kind"),
    ],
)
def test_what_servers_cannot_be_asked_is_refused(servers, capsys, options: list[str], expected: str) -> None:
    assert lab(servers, *options) == 2
    assert expected in capsys.readouterr().err and not servers[0].asked


def test_one_server_alone_is_no_experiment(servers, capsys) -> None:
    assert cli.main(["lab", "tasks", "--baseline-url", servers[0].url]) == 2
    assert "name both" in capsys.readouterr().err


def test_a_server_that_breaks_ends_the_run_and_the_rows_stay(servers, prompts, tmp_path: Path, capsys) -> None:
    file, left = tmp_path / "result.json", [6]
    whole = servers[1].stream

    def breaking(body: dict) -> tuple[int, str]:
        left[0] -= 1
        return whole(body) if left[0] >= 4 else (503, json.dumps({"error": {"message": "overloaded"}}))

    servers[1].stream = breaking
    assert lab(servers, "tasks", "--prompts", str(prompts), "--json", str(file)) == 2
    assert "overloaded" in capsys.readouterr().err and len(read(file).rows) == 1


def test_what_is_the_servers_own_is_no_option_over_them() -> None:
    names = {name: set(one.options.__dataclass_fields__) for name, one in SERVED.items()}
    assert names["tasks"] == {"prompts", "kinds", "per_kind", "seed", "temperature", "max_new_tokens", "repeats"}
    assert "rules" not in names["sweep"] and "top_ps" in names["sweep"] and "gamma" not in names["batch"]
