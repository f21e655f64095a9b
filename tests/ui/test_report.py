"""What a run leaves: a row for the table, and files that say what the metrics say."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from specdemo.decoding.steps import DraftLength
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.ui.replay import read
from specdemo.ui.report import FILES, as_csv, as_json, as_markdown, device_name, row
from specdemo.ui.runs import Run
from specdemo.ui.text import LANGUAGES, say
from tests.ui.synthetic import Synthetic
from tests.ui.test_runs import a_record


@pytest.fixture
def record() -> RaceRecord:
    record = a_record()
    record.known = Synthetic().engine().known(("ngram", "same"))
    return record


def test_a_row_holds_the_figures_of_the_metrics(record: RaceRecord) -> None:
    made, speculative = row(Run(record)), record.metrics(Lane.SPECULATIVE)
    assert made["speedup"] == pytest.approx(record.comparison.speedup, abs=1e-3)
    assert made["acceptance"] == pytest.approx(speculative.draft_acceptance_rate, abs=1e-3)
    assert (made["pair"], made["gamma"], made["rule"]) == ("Scripted model · ngram", 5, "shared noise")
    json.dumps(made)


def test_a_row_of_a_fault_shows_no_speedup(record: RaceRecord) -> None:
    script = Synthetic(bits=True)
    script.parted = script.text.replace("function", "method", 1)
    parted = a_record(script)
    parted.known = script.engine().known(("ngram", "same"))
    assert row(Run(parted))["speedup"] is None and row(Run(parted))["verdict"] == "fault"


def test_the_json_replays(record: RaceRecord) -> None:
    assert read(as_json(record)).file() == record.file()


def test_the_csv_has_a_row_for_each_step(record: RaceRecord) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(record))))
    assert len(lines) == sum(len(lane.written) for lane in record.lanes.values())
    spec = [line for line in lines if line["lane"] == "speculative"]
    assert sum(int(line["accepted"]) for line in spec) == record.metrics(Lane.SPECULATIVE).accepted
    assert sum(int(line["tokens"]) for line in spec) == record.metrics(Lane.SPECULATIVE).tokens
    assert "".join(json.loads(line["text"]) for line in spec) == Synthetic().text
    times = sum(float(line[f"{part}_ms"]) for line in spec for part in ("draft", "verify", "other"))
    assert times / 1000 == pytest.approx(record.metrics(Lane.SPECULATIVE).seconds, abs=1e-3)


def test_no_cell_of_the_csv_can_be_a_formula() -> None:
    record = a_record(Synthetic(text="=1+1 @cmd +x -y"))
    for line in csv.reader(io.StringIO(as_csv(record))):
        assert not any(cell.startswith(("=", "+", "@", "-")) for cell in line)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_report_holds_verdict_figures_machine_and_both_texts(record: RaceRecord, language: str) -> None:
    text = as_markdown(record, language)
    assert text.count(Synthetic().text) == 2 and "Scripted processor" in text and "2026-05-14 09:30 UTC" in text
    assert f"{record.comparison.speedup:.1f}" in text and "{" not in text.replace(Synthetic().text, "")


def test_the_report_names_every_setting_of_the_race(record: RaceRecord) -> None:
    record.request = replace(record.request, draft_length=DraftLength.COST_OPTIMAL, stop_strings=("END", "\n"))
    text = as_markdown(record, "en")
    settings = text.split(f"## {say('en', 'settings')}")[1].split("## ")[0]
    assert f"| {say('en', 'draft_length')} | {say('en', 'draft_length.cost optimal')} |" in settings
    assert f'| {say("en", "stop_strings")} | "END", "\\\\n" |' in settings


def test_nothing_in_a_report_can_close_its_block_or_its_table() -> None:
    record = a_record(Synthetic(text="a ```` b\n```\n| x | <script>"))
    record.prompt = "`````\n# heading"
    record.known = type(record.known)(pair={"target": "a|b <img src=x>", "drafter": "a\\|b"})
    text = as_markdown(record, "en")
    assert "``````text\n`````\n# heading\n``````" in text
    assert "a\\|b \\<img src=x\\>" in text and "a\\\\\\|b" in text


def test_every_offered_file_is_made_and_an_unknown_language_speaks_english(record: RaceRecord) -> None:
    for make in FILES.values():
        assert make(record, "xx")


def test_a_device_is_named_as_a_person_would(record: RaceRecord) -> None:
    assert device_name(record) == "Scripted processor ×2"
    record.known.environment["device"] = "cuda (NVIDIA H200)"
    assert device_name(record) == "cuda (NVIDIA H200)"
