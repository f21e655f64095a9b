"""The page over two servers: the record as ever, coloured where counts agree, and sentences where one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import urlsplit

import gradio as gr
import pytest

from specdemo.decoding.steps import UNTOLD, Origin, Stop
from specdemo.race import Lane, Mode, Request
from specdemo.recording import Known, RaceRecord, Settled, Wrote
from specdemo.remote import lane as remote_lane
from specdemo.remote.endpoint import Endpoint, Sent
from specdemo.remote.faults import RemoteFault
from specdemo.remote.lane import KEPT
from specdemo.remote.options import Servers
from specdemo.ui import glass, replay
from specdemo.ui.api import USUAL, Api
from specdemo.ui.conversation import Conversation, Turn
from specdemo.ui.desk import Desk, Loaded
from specdemo.ui.links import read_link
from specdemo.ui.orders import pair_and_request
from specdemo.ui.page import Page
from specdemo.ui.remote_engine import remote_engine
from specdemo.ui.report import as_json, as_markdown
from specdemo.ui.runs import Run
from specdemo.ui.servers import DRAFTS, SAME_MODEL, chosen
from specdemo.ui.show import Show
from specdemo.ui.text import tell
from specdemo.ui.text.below import recognise
from specdemo.ui.worker import Began, Ended, Event, Order, Refused, Worker
from tests.remote.server import Script, beginning, recorded, serving, without_ids

USUAL_CALL = {name: USUAL[name] for name in ("max_new_tokens", "gamma", "rule", "drafter", "draft_length")}
PROMPT = "Explain step by step how to boil an egg."


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_lane, "SCRAPES_APART", 0)


@pytest.fixture
def scripts() -> Iterator[tuple[Script, Script]]:
    with serving(recorded("plain")) as plain, serving(recorded("eagle")) as eagle:
        yield plain, eagle


def a_desk(scripts: tuple[Script, Script]) -> Desk:
    return Desk(remote_engine(), Servers(scripts[0].url, scripts[1].url, timeout=5))


def run(scripts: tuple[Script, Script], mode: Mode = Mode.RACED, desk: Desk | None = None) -> tuple[Show, list[Event]]:
    desk = desk or a_desk(scripts)
    asked = Request((), max_new_tokens=64, mode=mode)
    worker = Worker(desk, Order(PROMPT, desk.spec, asked)).start()
    show, seen = Show(Run(RaceRecord(PROMPT, asked))), []
    while not show.over:
        events = worker.drain(0.5)
        seen += events
        show.take(events)
    return show, seen


def said(show: Show) -> str:
    board = json.loads(show.values[2])
    return " ".join(tell("en", one) for one in (board["verdict"], *board.get("more", ())))


@pytest.mark.parametrize("mode", Mode)
def test_two_servers_race_and_what_they_tell_at_the_end_replaces_what_was_shown(scripts, mode: Mode) -> None:
    show, seen = run(scripts, mode)
    live = [event for event in seen if isinstance(event, Wrote)]
    assert {token.origin for event in live for token in event.step.tokens} == {Origin.UNKNOWN}
    assert sum(isinstance(event, Settled) for event in seen) == 1 and seen[-1] == Ended(stopped=False)
    speculative = show.record.metrics(Lane.SPECULATIVE)
    assert (speculative.drafted, speculative.accepted, speculative.target_passes) == (188, 18, 47)
    assert show.record.request.gamma == 4 and show.record.comparison.identical
    assert '"settled":true' in show.values[1] and '"u"' not in show.values[1] and "-1" not in show.values[1]
    assert "told by the server" in said(show) and "The clock is that of arrivals" in said(show)
    assert "verification" not in said(show)
    board = json.loads(show.values[2])
    assert board["chart"]["model"] is None and board["chart"]["costs"]["step"]["parts"] is None


def test_a_shared_server_is_approximate_and_its_figures_are_marked(scripts) -> None:
    other = recorded("eagle_shared")
    status, text = other.stream
    other.stream = (status, text.replace('"metrics":', '"unknown":'))
    with serving(other):
        show, _ = run((scripts[0], other))
    assert "which tokens were drafted is not known" in said(show)
    assert "shared server" in said(show) and "300 drafted" in said(show)
    board = json.loads(show.values[2])
    assert board["figures"]["passes"].startswith("≈") and board["origins"] == {} and board["chart"]["told"] is False


def test_what_a_server_does_not_tell_is_not_shown_under_glass(scripts) -> None:
    show, _ = run(scripts)
    view = glass.view(show.run, Lane.SPECULATIVE, 9)
    assert view["rows"] == [] and view["judged"] == "remote.glass" and set(view["times"]) == {"whole"}
    assert view["notes"] == [("remote.glass.drafted", {"accepted": "3", "drafted": "4"})]


def test_a_remote_race_is_a_file_that_replays_and_a_page_to_read(scripts) -> None:
    show, _ = run(scripts)
    again = replay.read(as_json(show.record))
    assert again.known.remote and again.metrics(Lane.SPECULATIVE).accepted == 18
    assert "told by the server" in as_markdown(again, "en")
    local = json.loads(as_json(show.record))
    del local["speculative"]["pair"]["clock"]
    with pytest.raises(replay.TraceFileRefused, match="no vocabulary"):
        replay.read(json.dumps(local))


def test_what_had_arrived_is_kept_when_a_server_breaks(scripts) -> None:
    status, text = scripts[1].stream
    scripts[1].stream = (status, "\n\n".join([*text.split("\n\n")[:6], ""]))
    show, seen = run(scripts)
    assert isinstance(seen[-1], Refused) and "ended its answer in the middle" in said(show)
    assert show.record.metrics(Lane.SPECULATIVE).stop is Stop.FAULT and show.record.metrics(Lane.BASELINE).tokens == 64
    board = json.loads(show.values[2])
    assert board["speed"] is None and not board["chart"]["done"]  # it is not over earlier: it broke
    assert board["lanes"]["speculative"]["note"][0] != "pane.earlier" and board["lanes"]["baseline"]["note"] is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [((429, "slow down"), "wait a little"), ((503, "busy"), "status 503"), ((401, ""), "--api-key-env")],
)
def test_a_server_that_refuses_is_a_sentence(scripts, answer: tuple[int, str], expected: str) -> None:
    scripts[1].stream = answer
    assert expected in said(run(scripts)[0])


def test_what_a_status_means_is_said_in_every_language(scripts) -> None:
    """Also where the server's own words have full stops in them, and where something had arrived."""
    endpoint, body = Endpoint(scripts[0].url), b"No. Thanks."
    said = [endpoint.refusals.status(status, body, "/v1/models", {}) for status in (302, 401, 404, 418, 429, 500)]
    said += [f"{one} {KEPT}" for one in said] + [endpoint.refusals.status(503, body, "/", {"Retry-After": "5"})]
    said.append(endpoint.refusals.status(404, body, "/v1/completions", {}))
    said.append(Endpoint(scripts[0].url, key="one").refusals.status(401, body, "/v1/models", {}))
    scripts[0].stream = (400, "top_k is bad. Sorry.")
    with pytest.raises(RemoteFault) as caught:
        list(endpoint.stream("model", "Hi", 8, {"top_k": 1}, Sent()))
    said.append(str(caught.value))
    assert "does not take this top_k" in said[-1]
    assert [text for text in said if isinstance(recognise(text), str)] == []
    assert isinstance(recognise(said[6])[1]["error"], tuple)


def test_stop_reaches_a_server_that_is_silent(scripts) -> None:
    scripts[1].silent = True
    desk = a_desk(scripts)
    worker = Worker(desk, Order(PROMPT, desk.spec, Request((), max_new_tokens=64))).start()
    seen: list[Event] = []
    while sum(isinstance(event, Wrote) for event in seen) < 64:
        seen += worker.drain(0.5)
    worker.stop.set()
    while not isinstance(seen[-1], Ended | Refused):
        seen += worker.drain(0.5)
    assert seen[-1] == Ended(stopped=True)


def test_text_without_ids_stays_when_a_visitor_stops_and_nothing_is_counted_of_it(scripts) -> None:
    """In the pane, in the figures, and in the file, which replays."""
    other = beginning(without_ids(recorded("eagle")), 5)
    other.holds, other.tokens = True, lambda body: [1, 5, 6] if "messages" in body else []
    with serving(other):
        desk = a_desk((scripts[0], other))
        asked = Request((), max_new_tokens=64)
        worker = Worker(desk, Order(PROMPT, desk.spec, asked)).start()
        show = Show(Run(RaceRecord(PROMPT, asked)))
        scripts[0].tokens = other.tokens
        while len(show.record.lanes[Lane.SPECULATIVE].written) < 5:
            show.take(worker.drain(0.5))
        worker.stop.set()
        while not show.over:
            show.take(worker.drain(0.5))
    written = "".join(show.record.lanes[Lane.SPECULATIVE].texts)
    assert len(written) > 10 and show.record.metrics(Lane.SPECULATIVE).stop is Stop.STOPPED
    pane = [json.loads(line) for line in show.values[1].splitlines()[1:]]
    assert "".join(token[1] for line in pane for token in line["k"]) == written
    board = json.loads(show.values[2])
    assert board["lanes"]["speculative"]["tokens"] == "–" and board["lanes"]["baseline"]["tokens"] == "64"
    assert board["figures"]["speculative"] == "–" and board["speed"] is None and board["figures"]["same"] is None
    assert "64 and – tokens" in said(show)
    again = replay.read(as_json(show.record))
    assert (
        again.metrics(Lane.SPECULATIVE).ids == [UNTOLD] * 5 and "".join(again.lanes[Lane.SPECULATIVE].texts) == written
    )
    assert written in as_markdown(again, "en")
    view = glass.view(show.run, Lane.SPECULATIVE, 2)
    assert view["plain"] is None and view["wrote"][0]["id"] == UNTOLD


def test_a_server_that_is_back_is_raced_without_a_new_page() -> None:
    """It stops, comes back with another model, which the other one then serves too, and then with a smaller context."""
    plain, eagle = scripts = recorded("plain"), recorded("eagle")

    def serves(script: Script, name: str, room: int, root: str | None = None) -> Script:
        script.models = (200, json.dumps({"data": [{"id": name, "max_model_len": room, "root": root}]}))
        return script

    def outcome() -> str:
        """What was said; nothing is streamed before a refusal."""
        before = [len(one.asked) for one in scripts]
        show, seen = run(scripts, desk=desk)
        asked = [path for one, n in zip(scripts, before, strict=True) for path, _ in one.asked[n:]]
        assert asked.count("/v1/completions") == (2 if isinstance(seen[-1], Ended) else 0)
        return "done" if isinstance(seen[-1], Ended) else said(show)

    with serving(plain):
        with serving(eagle):
            desk, port = a_desk(scripts), urlsplit(eagle.url).port
            assert outcome() == "done"
            eagle.health = (503, "")
            assert "status 503" in outcome()
            eagle.health = (404, "")
            assert outcome() == "done"
        assert "see whether the server runs" in outcome()
        with serving(serves(eagle, "other", 1024), port):
            assert "start both with the same model" in outcome()
            serves(plain, "other", 1024)
            assert "serve other now, not model: run again to race that" in outcome()
            assert desk.status.facts[0] == "other" and outcome() == "done"
        with serving(serves(eagle, "other", 512), port):
            assert "hold 512 tokens now, not 1,024: run again with that" in outcome()
            assert outcome() == "done"
            serves(eagle, "other", 512, root="big-7b")
            assert "loaded something unnamed and big-7b as other now" in outcome()
            assert outcome() == "done"


def test_servers_that_are_not_there_are_said_before_any_run(scripts) -> None:
    scripts[1].models = (200, '{"data": [{"id": "other"}]}')
    desk = a_desk(scripts)
    desk.open()
    status = desk.status
    while status.state is Loaded.LOADING:
        status = desk.watch(status.number, 5)
    assert status.state is Loaded.FAILED and "--served-model-name" in status.message


def test_a_chat_goes_to_the_servers_template(scripts) -> None:
    engine = remote_engine()
    pair = engine.load(Servers(scripts[0].url, scripts[1].url), lambda *_: None, None)
    before = Conversation(True, (Turn("Hello", "Yes?"),))
    assert engine.encode(pair, "And then?", before, False)
    asked = next(body for path, body in scripts[1].asked if path == "/tokenize")
    assert [one["content"] for one in asked["messages"]] == ["Hello", "Yes?", "And then?"]
    assert asked["chat_template_kwargs"] == {"enable_thinking": False}


def test_no_visitor_names_a_server_or_sets_what_is_the_servers_own(scripts) -> None:
    spec = Servers("http://one", "http://two")
    assert remote_engine().choose(spec, "http://evil", "same", "auto", "http://evil", "") is spec
    page = Page(Desk(remote_engine(), spec))
    theirs = DRAFTS | SAME_MODEL
    hidden = {name for name in theirs if not page.controls._made[name].visible}
    assert hidden == theirs and page.fresh["mode"] == Mode.ONE_AFTER_ANOTHER
    _, _, refused = read_link({"gamma": "3"}, page.fresh, page.controls.choices, page.controls.theirs)
    assert refused.key == "refused.theirs"


def test_a_call_has_no_choice_of_what_is_the_servers_own_and_need_not_know_the_hosts_file(scripts) -> None:
    page = Page(Desk(remote_engine(), Servers("http://one", "http://two")), settings={"gamma": 8})
    api = Api(page.desk, page.controls.choices, page.fresh, page.controls.theirs)
    pairs = api.pairs()
    assert page.fresh["gamma"] == 8 and not pairs["any_model"]
    assert pairs["drafters"] == pairs["rules"] == pairs["draft_lengths"] == []
    for given in ({"gamma": 3}, {"rule": "block"}, {"drafter": "embedded"}):
        with pytest.raises(gr.Error, match="the servers' own"):
            next(api._run(None, None, "Hi", USUAL_CALL | given, 0.1, ""))
    assert next(api._run(SimpleNamespace(session_hash="ann"), None, "Hi", USUAL_CALL, 0.1, "")) == []


def test_a_visitor_chooses_among_the_servers_that_the_host_allowed_and_no_others(scripts) -> None:
    """The speculative lane goes to the other one; a made-up address is refused before anything is asked."""
    third = "http://169.254.169.254:80"
    own = Servers(scripts[0].url, scripts[0].url, timeout=5, allowed=(scripts[1].url,))
    page = Page(Desk(remote_engine(), own))
    assert page.controls.choices["speculative_server"] == (scripts[0].url, scripts[1].url)
    moved = pair_and_request(page.desk, page.controls.choices, page.fresh | {"speculative_server": scripts[1].url})
    assert (moved[0].baseline, moved[0].speculative) == (scripts[0].url, scripts[1].url)
    forged = pair_and_request(page.desk, page.controls.choices, page.fresh | {"speculative_server": third})
    assert forged == Refused("refused.choice", {"name": "@speculative_server"})
    _, values, refused = read_link({"speculative_server": third}, page.fresh, page.controls.choices)
    assert refused.key == "refused.choice" and values == page.fresh
    assert chosen(own, {"baseline_server": third}) == own
    assert "baseline_server" not in Page(Desk(remote_engine(), Servers("http://one", "http://two"))).fresh


def test_a_replay_of_servers_says_so_on_a_page_of_this_machines_own(scripts) -> None:
    """What the lanes share is told by the recording, not by the page."""
    show, _ = run(scripts)
    written = show.record.lanes[Lane.BASELINE].written
    for known, clocks in ((show.record.known, "remote.clocks"), (Known(), "clocks")):
        again = Show(Run(RaceRecord(PROMPT, show.record.request, known), listed=False), replay_of=1)
        again.take([Began(show.record.request, known), *written])
        assert json.loads(again.values[2])["clocks"] == clocks
