"""The Lab of a page whose lanes are servers: what they allow runs and is kept, and the rest says why it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.served import SERVED, THEIRS
from specdemo.race import Lane
from specdemo.remote.options import Servers
from specdemo.ui.desk import Desk
from specdemo.ui.lab_brought import brought
from specdemo.ui.lab_form import Form, FormRefused
from specdemo.ui.lab_worker import LabOrder, LabWorker, Measured
from specdemo.ui.page import Page
from specdemo.ui.remote_engine import MixedSpec, mixed_engine, remote_engine
from specdemo.ui.text import STRINGS
from specdemo.ui.visitors import OWN
from specdemo.ui.worker import Ended, Refused
from tests.remote.server import Script, serving, writing


@pytest.fixture
def servers() -> Iterator[tuple[Script, Script]]:
    with serving(writing()) as plain, serving(writing(accepted=2)) as other:
        yield plain, other


def a_form() -> Form:
    return Form(OWN, ["ngram"], SERVED)


def run(servers: tuple[Script, Script], name: str, **options: str) -> LabWorker:
    desk = Desk(remote_engine(), Servers(servers[0].url, servers[1].url, timeout=5))
    asked = a_form().read(name, {"max_new_tokens": "13", "per_kind": "1", **options})
    worker = LabWorker(desk, LabOrder(asked, desk.spec))
    worker.start()
    events: list = []
    while not (events and isinstance(events[-1], Ended | Refused)):
        events += worker.drain(0.5)
    worker.thread.join()
    worker.events = events
    return worker


def test_an_experiment_runs_and_its_file_comes_back_on_any_page(servers) -> None:
    worker = run(servers, "tasks", kinds="chat")
    assert worker.events[-1] == Ended(stopped=False) and any(isinstance(one, Measured) for one in worker.events)
    (row,) = worker.result.rows
    assert (row["γ"], row["accepted"], row["tokens"]) == (THEIRS, 8, 12)
    for form in (a_form(), Form(OWN, ["ngram"])):
        one = brought(worker.result.model_dump_json(), form)
        assert one.asked.experiment.served and one.drawn["table"]["lines"]


def test_requests_at_once_run_on_the_page(servers) -> None:
    worker = run(servers, "batch", batches="1,2", kinds="chat")
    assert [row["batch"] for row in worker.result.rows] == [1, 2] and worker.result.rows[1]["parted"] == 0


def test_a_server_that_fails_is_a_sentence_and_what_was_measured_stays(servers) -> None:
    servers[1].stream = (503, json.dumps({"error": {"message": "overloaded"}}))
    worker = run(servers, "tasks", kinds="chat")
    assert worker.events[-1].key == "failed" and "overloaded" in worker.events[-1].params["message"]
    assert worker.result is not None


def test_a_server_that_died_is_said_before_an_experiment_asks_anything(servers) -> None:
    worker = run(servers, "tasks", kinds="chat")
    servers[1].health, asked = (503, ""), len(servers[0].asked)
    again = LabWorker(worker.desk, worker.order).start()
    again.thread.join(20)
    assert "status 503" in again.drain(1)[-1].params["message"]
    assert "/v1/completions" not in [path for path, _ in servers[0].asked[asked:]]


def test_what_needs_models_here_is_shown_with_the_reason() -> None:
    forms = {one["name"]: one for one in a_form().described()}
    assert list(forms) == list(EXPERIMENTS)
    assert {name for name, one in forms.items() if one["closed"] is None} == set(SERVED)
    assert {one["closed"][0] for one in forms.values() if one["closed"]} == {"lab.closed.remote"}
    assert {field["name"] for field in forms["sweep"]["fields"]} >= {"temperatures", "top_ps"}
    assert not {"gammas", "rules"} & {field["name"] for field in forms["sweep"]["fields"]}
    with pytest.raises(FormRefused):
        a_form().read("router", {})
    assert all(one["closed"] is None for one in Form(OWN, ["ngram"]).described())


def test_the_lab_is_open_over_two_servers_and_closed_over_one() -> None:
    both = Servers("http://one:1", "http://two:2")
    assert Page(Desk(remote_engine(), both)).lab.closed is None
    mixed = MixedSpec(None, Servers("http://one:1", None))
    assert Page(Desk(mixed_engine(Lane.SPECULATIVE), mixed)).lab.closed == ("lab.closed.mixed", {})
    assert all({"lab.closed.mixed", "lab.closed.remote"} <= STRINGS[language].keys() for language in STRINGS)
