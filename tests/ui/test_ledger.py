"""What a host writes down: every run of page and API, in the log and in /metrics, which our reader of vLLM's reads."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gradio_client import Client

from specdemo.race import Lane, Request
from specdemo.recording import RaceRecord
from specdemo.remote.counters import difference, parse
from specdemo.request_log import RequestLog
from specdemo.ui.desk import Desk
from specdemo.ui.ledger import Ledger
from specdemo.ui.scrape import Counts
from specdemo.ui.worker import Ended, Order, Refused, Worker
from tests.ui.served import Served, served
from tests.ui.synthetic import Synthetic

SPEC = ("ngram", "same")


def ran(desk: Desk, **asked: object) -> Ended | Refused:
    """One run to its end, through a worker."""
    worker = Worker(desk, Order("Tell me", SPEC, Request((), max_new_tokens=48, gamma=3), **asked)).start()
    worker.thread.join(30)
    seen: list[object] = []
    while not (seen and isinstance(seen[-1], Ended | Refused)):
        seen += worker.drain(0.1)
    return seen[-1]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(Synthetic().engine(), SPEC)
    desk.ledger = Ledger(RequestLog(tmp_path / "runs.jsonl"), Counts(lambda: len(desk.line)), "nightly")
    return desk


def test_a_run_is_a_line_and_is_counted(desk: Desk, tmp_path: Path) -> None:
    assert ran(desk) == Ended(stopped=False)
    ran(desk, source="api", tag="mine")
    first, second = lines(tmp_path / "runs.jsonl")
    assert (first["source"], first["tag"], first["outcome"]) == ("page", "nightly", "done")
    assert (second["source"], second["tag"]) == ("api", "mine")
    assert first["target"] == "Scripted model" and first["drafted"] > 0
    counted = parse(desk.ledger.counts.text().decode())
    assert counted.speculates and counted.finished == 2
    assert (counted.drafted, counted.accepted) == (2 * first["drafted"], 2 * first["accepted"])
    assert sum(counted.accepted_at) == counted.accepted and len(counted.accepted_at) == 3


def test_a_run_that_fails_on_its_way_is_written_down_and_one_that_never_began_is_not(
    desk: Desk, tmp_path: Path
) -> None:
    desk.engine = Synthetic(fails_at=9).engine()
    assert isinstance(ran(desk), Refused)
    assert [one["outcome"] for one in lines(tmp_path / "runs.jsonl")] == ["failed"]
    assert 'finished_reason="error"' in desk.ledger.counts.text().decode()
    desk.engine = Synthetic(context=1).engine()
    assert isinstance(ran(desk), Refused) and len(lines(tmp_path / "runs.jsonl")) == 1


def test_a_full_disk_is_a_notice_to_the_host_and_the_run_is_had(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(handler: logging.Handler) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("logging.handlers.RotatingFileHandler.flush", full)
    with caplog.at_level(logging.WARNING, "specdemo.ui.ledger"):
        assert ran(desk) == Ended(stopped=False)
    assert "could not be logged" in caplog.text and "No space left on device" in caplog.text


def test_a_ledger_that_breaks_loses_no_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdemo.ui.ledger.entry_of", lambda *_, **__: 1 / 0)
    assert ran(desk) == Ended(stopped=False)


def test_without_the_hosts_wish_nothing_is_kept() -> None:
    desk = Desk(Synthetic().engine(), SPEC)
    assert desk.ledger.open("Tell me", Request(()), RaceRecord("", Request(())).known) is None
    assert ran(desk) == Ended(stopped=False)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    counts = Counts(lambda: 3)
    ledger = Ledger(RequestLog(tmp_path_factory.mktemp("log") / "runs.jsonl"), counts)
    with served(ledger=ledger) as house:
        yield house


def test_our_reader_of_a_vllm_servers_counters_reads_our_own(house: Served) -> None:
    before = parse(httpx.get(f"{house.url}metrics").text)
    client = Client(house.url, verbose=False)
    answer = client.predict("Tell me", max_new_tokens=48, gamma=3, tag="weekly", api_name="/compare")
    scraped = httpx.get(f"{house.url}metrics")
    counted = difference(before, parse(scraped.text))
    drafted = answer["speculative"]
    assert (counted.drafted, counted.accepted, counted.finished) == (drafted["drafted"], drafted["accepted"], 1)
    assert scraped.headers["content-type"].startswith("text/plain") and "nosniff" in str(scraped.headers)
    for lane in Lane:
        labels = f'{{engine="0",lane="{lane.value}",model_name="Scripted model"}}'
        assert f"vllm:generation_tokens_total{labels} {answer[lane.value]['tokens']}.0" in scraped.text
        assert f"vllm:time_to_first_token_seconds_count{labels} 1.0" in scraped.text
    assert 'vllm:num_requests_waiting{engine="0"} 2.0' in scraped.text
    assert 'vllm:num_requests_running{engine="0"} 1.0' in scraped.text
    (line,) = lines(house.desk.ledger.log.path)
    assert (line["source"], line["tag"]) == ("api", "weekly") and "Tell me" not in json.dumps(line)


def test_metrics_are_read_only(house: Served) -> None:
    assert httpx.head(f"{house.url}metrics").status_code == 200
    assert httpx.post(f"{house.url}metrics").status_code in (404, 405)
