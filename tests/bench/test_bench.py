"""The command from end to end on a tiny target: rows, table, JSON, refusals."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import pytest
import torch

from specdemo.bench import add_arguments, main
from specdemo.bench.contest import PROMPTS, Settings
from specdemo.bench.measure import take_turns
from specdemo.bench.report import save, table, to_json
from specdemo.bench.results import Goal, Result
from specdemo.bench.steps import peak_memory
from specdemo.environment import Busy
from specdemo.lab.prompts import TASKS
from tests.bench.conftest import ScriptedWatch
from tests.threads import one_thread  # noqa: F401

LINES = {"a": 1, "b": 1, "c": 1, "d": 4, "e": 2, "f": 2}
BUSY = [Busy(42, "python train.py", 0.98)]


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(options)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdemo.bench.command.busy_processes", lambda *_, **__: [])


def test_every_row_runs_and_is_kept(
    tiny_target: Path, tiny_prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "bench.json"
    pair = ["--target", str(tiny_target), "--prompts", str(tiny_prompts), "--draft-layers", "2", "--device", "cpu"]
    assert main(parsed("--quick", *pair, "--only", ",".join(LINES), "--json", str(file))) == 0
    kept = json.loads(file.read_text("utf-8"))
    assert (kept["format"], kept["version"]) == ("specdemo bench", 1)
    assert kept["environment"]["torch"] and kept["pair"]["target"] == tiny_target.name
    rows = [result["row"] for result in kept["results"]]
    assert {row: rows.count(row) for row in rows} == LINES
    for result in kept["results"]:
        assert len(result["values"]) == kept["settings"]["repeats"] == 2
        assert result["low"] <= result["value"] <= result["high"]
        assert result["faults"] == [] and isinstance(result["reached"], bool)
        assert all(side["tokens/s"] > 0 for side in result["figures"].values())
    drafts = next(result for result in kept["results"] if result["row"] == "c")
    assert any("drafted tokens equal in" in note for note in drafts["notes"])
    shown = capsys.readouterr().out
    assert shown.count("\n| ") == sum(LINES.values()) + 1
    assert "fewer than 5, a look and not a measurement" in shown


def test_every_row_of_steps_runs_and_is_kept(
    tiny_target: Path, tiny_prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "steps.json"
    pair = ["--target", str(tiny_target), "--prompts", str(tiny_prompts), "--draft-layers", "2", "--device", "cpu"]
    assert main(parsed("--steps", "--quick", *pair, "--precision", "fp32", "--json", str(file))) == 0
    kept = json.loads(file.read_text("utf-8"))
    rows = [result["row"] for result in kept["results"]]
    assert {row: rows.count(row) for row in rows} == {"g": 2, "v": 10, "h": 1, "o": 4, "n": 1, "p": 1}
    assert all(value > 0 for result in kept["results"] if result["row"] != "o" for value in result["values"])
    assert all(result["faults"] == [] for result in kept["results"])
    plain = kept["results"][0]["figures"]
    assert plain.keys() == {f"{who} {how}" for how in ("fp32", "bf16") for who in ("ours", "general", "generate")}
    assert [result["goal"]["at_most"] for result in kept["results"][2:6]] == [None, None, None, 1.3]
    assert kept["pair"]["promise"] and kept["environment"]["kernels"]
    shown = capsys.readouterr().out
    assert "promise " in shown and "kernels " in shown
    unjudged = next(line for line in shown.splitlines() if "v(1) " in line)
    assert "reached" not in unjudged and "MISSED" not in unjudged


def test_turns_are_timed_in_a_rotating_order_after_a_warm_up(nobody: ScriptedWatch) -> None:
    log: list[str] = []
    takes = {name: lambda name=name: log.append(name) or float(len(log)) for name in ("a", "b")}
    turns = take_turns(takes, 2, nobody)
    assert "".join(log) == "abbaab"
    assert [turn.seconds for turn in turns] == [{"b": 3.0, "a": 4.0}, {"a": 5.0, "b": 6.0}]


def test_the_memory_of_an_act_is_what_it_takes_beyond_what_was_held() -> None:
    def hold(mebibytes: int) -> None:
        block = torch.ones(mebibytes << 18)
        time.sleep(0.05)
        del block

    least = peak_memory(lambda: hold(200), torch.device("cpu"))
    assert 190 << 20 < least < 260 << 20
    assert peak_memory(lambda: hold(1), torch.device("cpu")) < 40 << 20


def test_strict_refuses_to_start_beside_a_busy_process_and_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("specdemo.bench.command.busy_processes", lambda *_, **__: BUSY)
    monkeypatch.setattr("specdemo.bench.command.ROWS", {"a": lambda contest: pytest.fail("it started")})
    assert main(parsed("--strict")) == 2
    said = capsys.readouterr().err
    assert "python train.py (process 42, 98% of a core)" in said and "Not started" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--only", "z"), "no row 'z'"),
        (("--repeats", "0"), "at least 1 repeat"),
        (("--json", "/no/such/folder/x.json"), "no folder /no/such/folder"),
        (("--target", "/no/such/model", "--only", "a"), "/no/such/model"),
        (("--prompts", "/no/such.json"), "holds no prompts"),
        (("--prompts", str(TASKS)), "no prompts of the kind 'copying'"),
    ],
)
def test_what_cannot_be_measured_is_said(options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(parsed(*options)) == 2
    assert said in capsys.readouterr().err


MISSED = Result("a", "ours over theirs", (1.0, 1.05, 1.2), Goal(at_least=1.1), figures={"ours": {"tokens/s": 20.0}})
REACHED = Result("d", "outside", (0.02, 0.03, 0.05), Goal(at_most=0.06), unit="%", busy=("train.py",))
VOID = Result("c", "assisted", (2.0,) * 3, Goal(at_least=1.5), faults=("after 3 tokens our lane drafted [1]",))


def test_the_table_says_what_was_reached_what_was_missed_and_what_is_void() -> None:
    shown = table([MISSED, REACHED, VOID], Settings(repeats=5), {"target": "tiny"}, {"cpu": "a cpu"})
    missed, reached, void = shown.splitlines()[2:5]
    assert "1.05×" in missed and "1.00× to 1.20×" in missed and "at least 1.10×" in missed and "MISSED" in missed
    assert "3.0 %" in reached and "at most 6.0 %" in reached and "reached, noisy" in reached
    assert "void" in void and "VOID: after 3 tokens our lane drafted [1]" in shown
    assert "train.py was busy meanwhile" in shown and "20.00 tokens/s" in shown
    assert "target tiny" in shown and "cpu a cpu" in shown


def test_the_json_keeps_every_value_and_marks_noise(tmp_path: Path) -> None:
    save(tmp_path / "x.json", to_json([MISSED, REACHED], Settings(), {}, {}))
    kept = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert kept["noisy"] is True
    assert [result["noisy"] for result in kept["results"]] == [False, True]
    assert kept["results"][0]["values"] == [1.0, 1.05, 1.2] and kept["results"][0]["reached"] is False


def test_a_void_result_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, tiny_target: Path) -> None:
    monkeypatch.setattr("specdemo.bench.command.ROWS", {"c": lambda contest: [VOID]})
    assert main(parsed("--target", str(tiny_target), "--device", "cpu")) == 1


def test_the_prompts_cover_copying_and_the_rest() -> None:
    prompts = json.loads(PROMPTS.read_text("utf-8"))
    assert len(prompts["copying"]) >= 3 and {p["name"] for p in prompts["other"]} == {"chat", "code", "story", "maths"}
