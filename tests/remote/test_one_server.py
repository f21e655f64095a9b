"""One server for both lanes, whose requests differ: what each is asked, what is said of it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdemo import cli, trace_files
from specdemo.app_options import app_parser
from specdemo.race import Lane, Mode
from specdemo.recording import RaceRecord
from specdemo.remote import lane as remote_lane
from specdemo.remote.facts import Provenance
from specdemo.remote.faults import RemoteFault
from specdemo.remote.options import Servers, servers
from specdemo.remote.settings import MOST, OURS
from specdemo.request_log import lines_of
from specdemo.ui import remote_says
from specdemo.ui.desk import Desk
from specdemo.ui.page import Page
from specdemo.ui.remote_engine import remote_engine
from specdemo.ui.servers import chosen
from specdemo.ui.text import LANGUAGES, tell
from specdemo.ui.text.below import recognise
from tests.remote.server import Script, serving, transcript

OFF = '{"speculative.n_max": 0}'


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """It drafts, and counts its drafts, unless a request forbids that."""
    monkeypatch.setattr(remote_lane, "SCRAPES_APART", 0)
    script = Script(metrics=("before.prom",))

    def stream(body: dict) -> tuple[int, str]:
        if body.get("speculative.n_max") == 0:
            return 200, transcript("plain.sse")
        script.metrics = [transcript("after.prom")]
        return 200, transcript("speculative.sse")

    script.stream = stream
    with serving(script):
        yield script


def remote(server: Script, *options: str) -> int:
    urls = ["--baseline-url", server.url, "--speculative-url", f"{server.url}/v1", "--timeout", "5"]
    return cli.main(["remote", *urls, *options, "Where is the cat?"])


def test_each_lane_is_asked_with_its_own_and_counts_its_own(server, tmp_path: Path, capsys) -> None:
    file, log = tmp_path / "race.json", tmp_path / "log.jsonl"
    sampling = ["--temperature", "0.7", "--top-k", "9", "--top-p", "0.9", "--stop", "END"]
    assert remote(server, "--baseline-settings", OFF, "--json", str(file), "--log", str(log), *sampling) == 0
    own, other = (body for path, body in server.asked if path == "/v1/completions")
    assert own.pop("speculative.n_max") == 0 and own == other and set(own) <= OURS
    record, out = RaceRecord.of(trace_files.load(file)), capsys.readouterr().out
    assert record.metrics(Lane.BASELINE).drafted == 0 and record.metrics(Lane.SPECULATIVE).drafted == 24
    assert record.known.pair["baseline provenance"] == Provenance.COUNTED  # not with the other lane's drafts
    assert record.known.pair["baseline settings"] == OFF and "speculative settings" not in record.known.pair
    assert f"its requests had {OFF}" in out and "Both lanes ran on one server" in out and "at once" not in out
    assert json.loads(next(lines_of(log)))["baseline settings"] == OFF
    notes = [key for key, _ in remote_says.more(record)]
    assert {"remote.settings.note", "remote.one"} < {*notes} and "remote.baseline" not in notes


def test_one_server_for_both_at_once_is_said_to_be_shared(server, tmp_path: Path, capsys) -> None:
    file = tmp_path / "race.json"
    assert remote(server, "--baseline-settings", OFF, "--mode", "raced", "--json", str(file)) == 0
    assert "asked at once and shared it" in capsys.readouterr().out
    assert ("remote.one.raced", {}) in remote_says.more(RaceRecord.of(trace_files.load(file)))


def test_a_baseline_that_drafts_all_the_same_is_said(server, tmp_path: Path, capsys) -> None:
    told = transcript("told.sse")
    server.stream = lambda body: (200, told)
    file = tmp_path / "race.json"
    assert remote(server, "--baseline-settings", '{"unknown": 1}', "--json", str(file)) == 0
    assert "The baseline drafted, too" in capsys.readouterr().out
    assert ("remote.one.baseline", {}) in remote_says.more(RaceRecord.of(trace_files.load(file)))


def test_a_setting_that_the_server_refuses_is_named(server, capsys) -> None:
    server.stream = (400, json.dumps({"error": {"message": "draft_model: no such model"}}))
    assert remote(server, "--speculative-settings", '{"draft_model": "none"}') == 2
    assert "does not take this draft_model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "ask the same of one server"),
        (["--baseline-settings", OFF, "--speculative-settings", OFF], "ask the same of one server"),
        (["--baseline-settings", "{}"], "ask the same of one server"),
        (["--baseline-settings", "[1]"], "is no JSON object"),
        (["--speculative-settings", "{'a': 1}"], "--speculative-settings is not JSON"),
        (["--baseline-settings", '{"a": NaN}'], "is not JSON"),
        (["--baseline-settings", '{"a": 1e999}'], "is not JSON"),
        (["--baseline-settings", '{"a": "\\ud800"}'], "is not JSON"),
        (["--baseline-settings", '{"a": 1, "a": 2}'], "a name stands twice"),
        (["--baseline-settings", "[" * MOST], "is not JSON"),
        (["--baseline-settings", json.dumps({"a": "x" * MOST})], "leave out what both share"),
        *((["--baseline-settings", json.dumps({name: 1})], f"{name} is set by this program") for name in sorted(OURS)),
    ],
)
def test_what_is_no_setting_of_a_lane_is_refused_before_anything_is_asked(given: list[str], expected: str) -> None:
    args = app_parser().parse_args(["--baseline-url", "http://One:1", "--speculative-url", "http://one:1/v1", *given])
    with pytest.raises(RemoteFault, match=expected):
        servers(args)


def test_settings_without_a_server_are_refused() -> None:
    for urls in ([], ["--speculative-url", "http://one:1"]):
        with pytest.raises(RemoteFault, match="give --baseline-url, too"):
            servers(app_parser().parse_args(["--baseline-settings", OFF, *urls]))


def test_the_page_shows_them_and_no_visitor_changes_them(server) -> None:
    own = Servers(server.url, server.url, settings={Lane.BASELINE: json.loads(OFF)}, allowed=("http://two:2",))
    engine = remote_engine()
    pair = engine.load(own, lambda *_: None, None)
    facts = [tell("en", fact) for fact in engine.facts(pair) if isinstance(fact, tuple)]
    assert f"Baseline asked with {OFF}" in facts
    pair.close()
    assert Page(Desk(engine, own)).fresh["mode"] == Mode.ONE_AFTER_ANOTHER
    picked = chosen(own, {"baseline_server": "http://two:2", "baseline_settings": "{}", "settings": "{}"})
    assert picked.settings == own.settings and picked.baseline == "http://two:2"


def test_a_choice_that_makes_one_server_of_both_is_refused_in_every_language(server) -> None:
    two = Servers("http://two:2", server.url, allowed=(server.url,))
    with pytest.raises(RemoteFault) as caught:
        remote_engine().load(chosen(two, {"baseline_server": server.url}), lambda *_: None, None)
    said = recognise(str(caught.value))
    assert len({tell(language, said) for language in LANGUAGES}) == 3 and not server.asked
