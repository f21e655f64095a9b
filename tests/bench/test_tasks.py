"""The tasks from end to end on a tiny target, and what the tables make of cells."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from specdemo.bench import add_arguments, main
from specdemo.bench.measure import Repeat, interleave
from specdemo.bench.sides import Prompt, Sample, Side
from specdemo.bench.task_report import lines, table, to_json
from specdemo.bench.tasks import KINDS, Cell, Contestant, TaskSettings, speedup
from tests.bench.conftest import ScriptedWatch
from tests.threads import one_thread  # noqa: F401

NAN = float("nan")


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["--tasks", *options])


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdemo.bench.command.busy_processes", lambda *_, **__: [])


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Two kinds for a tiny context, one of which repeats itself."""
    path = tmp_path / "prompts.json"
    kinds = {"chat": [{"text": "abcabcabcabc"}, {"text": "xyzzy"}], "code": [{"text": "x = x + 1; x = x + "}]}
    path.write_text(json.dumps(kinds), "utf-8")
    return path


def test_every_drafter_runs_on_every_kind_and_all_of_it_is_kept(
    tiny_target: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file, target = tmp_path / "tasks.json", str(tiny_target)
    drafters = ["ngram", target, f"ngram+{target}"]
    options = ["--target", target, "--precision", "fp32", "--device", "cpu", "--prompts", str(prompts)]
    options += [part for name in drafters for part in ("--drafter", name)]
    options += ["--gamma", "2,4", "--new-tokens", "10", "--repeats", "2", "--json", str(file)]
    assert main(parsed(*options)) == 0
    kept = json.loads(file.read_text("utf-8"))
    cells = kept["cells"]
    assert len(cells) == 2 * 3 * 3 * 2 and kept["pairs"].keys() == set(drafters)
    assert {len(cell["speedups"]) for cell in cells} == {2}
    assert all(cell["faults"] == [] and min(cell["speedups"]) > 0 for cell in cells)
    itself = [c["figures"] for c in cells if c["contestant"]["drafter"] == target and c["sampling"] == "greedy"]
    assert all(figures["first draft"] == 1 and figures["c"] > 0 and figures["v"] > 0 for figures in itself)
    assert max(figures["E"] for figures in itself) > 3
    shown, told = capsys.readouterr()
    assert "**Speedup over our own baseline (×)**" in shown and "Fewer than 3 repeats" in shown
    assert shown.count("\n| greedy ") == 6 * 6 and "reached" not in shown, "a part of the kinds is not judged"
    assert told.count("bench: rejection, ") == 2


def test_a_quick_look_takes_one_prompt_of_each_kind_and_the_drafters_there_are(
    tiny_target: Path, prompts: Path, capsys: pytest.CaptureFixture
) -> None:
    options = ["--target", str(tiny_target), "--precision", "fp32", "--device", "cpu", "--prompts", str(prompts)]
    assert main(parsed("--quick", *options, "--samplings", "greedy", "--draft-length", "additive,fixed")) == 0
    shown = capsys.readouterr().out
    assert "1 prompt a kind, 12 new tokens" in shown
    assert "ngram, γ 5, additive" in shown and "Drafters: ngram: n-gram lookup" in shown


def test_the_baseline_runs_before_all_others_and_after_them(nobody: ScriptedWatch) -> None:
    log: list[str] = []

    def side(name: str) -> Side:
        return Side.of(name, lambda prompt: log.append(name) or Sample((1, 2), 1, 1.0, 1.0, 1))

    repeats = interleave([side("x"), side("y")], [Prompt("p", (1,))], 2, nobody, around=side("base"))
    assert log == ["base", "x", "y", "base", "base", "y", "x", "base"]
    assert len(repeats[0].samples["base"]) == 2 and repeats[0].speed("base") == 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kinds", "poetry"), "no kind 'poetry': choose from chat, code"),
        (("--samplings", "hot"), "no sampling 'hot': choose from greedy"),
        (("--gamma", "5,x"), "whole number from 1 to 16"),
        (("--gamma", "17"), "whole number from 1 to 16"),
        (("--draft-length", "moody"), "no policy 'moody': choose from fixed"),
        (("--per-kind", "0"), "at least 1 prompt"),
        (("--prompts", "/no/such.json"), "holds no prompts"),
        (("--target", "/no/such/model"), "/no/such/model"),
    ],
)
def test_what_cannot_be_measured_is_said(options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(parsed(*options)) == 2
    assert said in capsys.readouterr().err


def test_several_draft_lengths_are_for_tasks(capsys: pytest.CaptureFixture) -> None:
    args = parsed("--gamma", "2,3")
    args.tasks = False
    assert main(args) == 2
    assert "with --tasks only" in capsys.readouterr().err


# --- The tables ------------------------------------------------------------------------------------------------------


def cells(drafter: str, sampling: str, speeds: list[tuple[float, ...]], first: float = 0.6, **more: object) -> list:
    figures = {"first draft": first, "mean acceptance length": 2.8, "E": 2.5, "c": NAN, "v": 1.1}
    one = Contestant(drafter, 5)
    return [Cell(kind, sampling, one, each, figures, **more) for kind, each in zip(KINDS, speeds, strict=False)]


FAST = [(1.5, 1.3, 1.6), *[(2.5, 2.5, 2.5)] * 5]


def test_mean_and_worst_kind_are_taken_repeat_by_repeat() -> None:
    line = lines(cells("head", "greedy", FAST))[0]
    assert (line.measure, line.mean, line.worst, line.reached) == ("speedup", 14 / 6, 1.5, True)
    assert line.by_kind["chat"] == 1.5
    slow = lines(cells("head", "greedy", [(1.3,) * 3, *FAST[1:]]))[0]
    assert slow.mean > 2 and slow.reached is False, "the worst kind has a goal of its own"


def test_goals_are_for_all_kinds_and_the_first_drafts_is_the_heads_alone() -> None:
    assert lines(cells("head", "greedy", FAST[:3]))[0].reached is None
    assert lines(cells("head", "shared-noise", FAST))[0].reached is None
    of = {d: {x.measure: x.reached for x in lines(cells(d, "greedy", FAST, first=0.4))} for d in ("head", "ngram+head")}
    assert of["head"]["first draft"] is False and of["ngram+head"]["first draft"] is None
    assert of["head"]["mean acceptance length"] is True and of["head"]["E"] is None


def test_the_tables_say_what_was_reached_missed_void_and_noisy() -> None:
    found = cells("head", "greedy", FAST, first=0.4) + cells("ngram", "rejection", FAST, busy=("train.py",))
    found += cells("bad", "greedy", FAST, faults=("prompt 1: the texts part at token 3",))
    pair = {"target": "tiny", "drafter": "x", "device": "cpu"}
    shown = table(found, TaskSettings(), {"head": pair}, {"cpu": "a cpu"})
    speeds = shown.split("**")[2].splitlines()
    assert any("head, γ 5" in line and "mean 2.00, worst 1.40" in line and "reached" in line for line in speeds)
    assert any("bad, γ 5" in line and "void" in line for line in speeds)
    assert "VOID, greedy, bad, γ 5, chat: prompt 1: the texts part at token 3" in shown
    assert "noisy: train.py was busy meanwhile" in shown
    firsts = shown.split("**")[4].splitlines()
    assert any("head, γ 5" in line and "mean 50" in line and "MISSED" in line for line in firsts)
    assert "–" in shown, "what never happened has no figure"
    assert "target tiny; device cpu; cpu a cpu." in shown


def test_answers_of_one_token_have_no_speedup_and_the_json_has_no_nan() -> None:
    one = Sample((1,), first=1, seconds=0.1, whole_seconds=1.0, passes=0)
    none = speedup(Repeat({"baseline": [one, one], "head": [one]}), "head", 1.0)
    assert none != none
    kept = to_json(cells("head", "greedy", [(none,) * 3, *FAST[1:]]), TaskSettings(), {}, {})
    text = json.dumps(kept, allow_nan=False)
    assert json.loads(text)["lines"][0]["reached"] is True and kept["cells"][0]["figures"]["c"] is None
    assert kept["cells"][0]["speedups"] == [None] * 3
