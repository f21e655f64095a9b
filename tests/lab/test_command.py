"""`lab NAME` from its options to the kept result: resumed, interrupted, refused."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specdemo import cli
from specdemo.lab.experiment import LabRefused, Row
from specdemo.lab.heat_map import HeatMap
from specdemo.lab.options import add_options, read_options
from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.result import Result, read
from tests.lab.worlds import World, at_its_own_time
from tests.threads import one_thread  # noqa: F401


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """What `lab` loads, whatever pair is asked for."""
    world = at_its_own_time(World(), monkeypatch)
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda spec, progress: world)
    return world


def lab(*options: str) -> int:
    return cli.main(["lab", "tasks", "--kinds", "chat", "--max-new-tokens", "8", *options])


def test_a_result_is_kept_in_three_forms_and_comes_back(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    files = {form: tmp_path / f"result.{form}" for form in ("json", "csv", "markdown")}
    assert lab("--per-kind", "2", *(part for form, file in files.items() for part in (f"--{form}", str(file)))) == 0
    result = read(files["json"])
    assert result.done and len(result.rows) == 4 and result.options["gammas"] == [4, 6]
    assert Result.model_validate_json(result.model_dump_json()) == result
    rows = list(csv.DictReader(files["csv"].open(encoding="utf-8")))
    assert [row["γ"] for row in rows] == ["4", "6"] * 2 and float(rows[0]["verify s"]) > 0
    shown = capsys.readouterr().out
    text = files["markdown"].read_text("utf-8")
    assert "| chat | 4 | fixed" in text and "| chat | 4 | fixed" in shown
    assert result.findings and all(finding in text and finding in shown for finding in result.findings)
    assert "target certain" in text and "cpu" in text and "gammas 4, 6" in text


def test_a_run_goes_on_where_it_was_interrupted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "result.json"
    whole = EXPERIMENTS["tasks"].run

    def interrupted(*about: object) -> Iterator[Row | None]:
        for row in whole(*about):
            yield row
            if row is not None:
                assert len(json.loads(file.read_text("utf-8"))["rows"]) == 1, "kept at once"
                raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "tasks", replace(EXPERIMENTS["tasks"], run=interrupted))
    assert lab("--per-kind", "2", "--json", str(file)) == 130
    assert len(read(file).rows) == 1 and read(file).findings
    monkeypatch.setitem(EXPERIMENTS, "tasks", replace(EXPERIMENTS["tasks"], run=whole))
    assert lab("--per-kind", "2", "--json", str(file)) == 0
    assert "1 of 4 rows are in" in capsys.readouterr().err
    assert read(file).done
    steps, world.facts = world.steps, world.facts | {"memory": "as free as it is now"}
    assert lab("--per-kind", "2", "--json", str(file)) == 0 and world.steps == steps, "nothing is left to do"


def test_rows_of_another_run_are_not_mixed_in(world: World, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "result.json"
    assert lab("--per-kind", "1", "--json", str(file)) == 0
    assert lab("--per-kind", "1", "--gammas", "2", "--json", str(file)) == 2
    assert "holds rows of other options (gammas): name another file" in capsys.readouterr().err
    world.facts = world.facts | {"drafter": "another"}
    assert lab("--per-kind", "1", "--json", str(file)) == 2
    assert "rows of another pair (drafter)" in capsys.readouterr().err
    kept = json.loads(file.read_text("utf-8"))
    for document, said in (
        ("{", "is not JSON"),
        (json.dumps(kept | {"version": 9}), "is of version 9"),
        (json.dumps(kept | {"colour": 1}), "At colour: no result has such a key"),
        ("[]", "not a result"),
    ):
        file.write_text(document, "utf-8")
        assert lab("--per-kind", "1", "--json", str(file)) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gammas", "17"), "--gammas: take a whole number from 0 to 16, not '17'"),
        (("--gammas", ","), "--gammas: give at least one value"),
        (("--policies", "moody"), "--policies: take one of fixed"),
        (("--temperature", "nan"), "--temperature: take a number from 0 to 5"),
        (("--kinds", "poetry"), "no kind 'poetry': choose from chat"),
        (("--prompts", "/no/such.jsonl"), "/no/such.jsonl holds no prompts"),
        (("--json", "/no/such/folder/x.json"), "no folder /no/such/folder"),
    ],
)
def test_what_cannot_be_measured_is_said_before_the_pair_loads(
    options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda *_: pytest.fail("it loads"))
    assert lab(*options) == 2
    assert said in capsys.readouterr().err


def test_the_options_of_every_experiment_are_read_as_they_are_shown() -> None:
    import argparse

    for experiment in EXPERIMENTS.values():
        parser = argparse.ArgumentParser()
        add_options(parser, experiment.options)
        assert read_options(experiment.options, parser.parse_args([])) == experiment.options()
        assert parser.format_help()


def test_the_registry_stands_without_torch() -> None:
    import subprocess

    command = "import sys, specdemo.lab.registry; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_the_best_cell_of_a_heat_map() -> None:
    values = ((None, 0.5), (0.7, 0.7))
    assert HeatMap("t", "down", "across", ("a", "b"), ("1", "2"), values).best == (1, 0)
    assert HeatMap("t", "down", "across", ("a",), ("1",), ((None,),)).best is None
    assert issubclass(LabRefused, ValueError)


def test_options_come_from_a_file_and_what_is_given_here_wins(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file, kept = tmp_path / "demo.yaml", tmp_path / "result.json"
    # of the experiment, as text and as numbers; of the pair; of the page and of another experiment, passed over
    file.write_text("gammas: 2,3\ntemperature: 0.5\nrule: rejection\nseed: 7\ndrafter: ngram\ngamma: 9\nhost: h\n")
    assert lab("--config", str(file), "--per-kind", "1", "--gammas", "5", "--json", str(kept)) == 0
    options = read(kept).options
    assert (options["gammas"], options["temperature"], options["rule"], options["seed"]) == ([5], 0.5, "rejection", 7)
    for wrong, said in (
        ("gamas: 4\n", "demo.yaml, line 1: gamas: there is no such option. Did you mean gammas?"),
        ("gammas: [4, 6]\n", "demo.yaml, line 1: gammas: one value is wanted, and this is a list. Several"),
        ("temperature: hot\n", "--temperature: take a number from 0 to 5"),
    ):
        file.write_text(wrong)
        assert lab("--config", str(file)) == 2
        assert said in capsys.readouterr().err
