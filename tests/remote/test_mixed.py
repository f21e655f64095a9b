"""A lane on this machine against one on a server: refused unless it is the same model, and nowhere like for like."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specdemo import cli, trace_files
from specdemo.app_options import app_parser
from specdemo.decoding.steps import Origin, Rule
from specdemo.models.pair_options import NGRAM, PairSpec
from specdemo.race import Lane, Mode, Request
from specdemo.recording import RaceRecord, Settled
from specdemo.remote.faults import RemoteFault
from specdemo.remote.mixed import MixedPair
from specdemo.remote.options import Servers, servers
from specdemo.remote.racing import mix
from specdemo.request_log import lines_of
from specdemo.ui import glass, report
from specdemo.ui.api import _answer
from specdemo.ui.charts import chart_figures
from specdemo.ui.conversation import Conversation
from specdemo.ui.desk import Desk
from specdemo.ui.own_engine import real_engine
from specdemo.ui.page import Page
from specdemo.ui.remote_engine import MixedSpec, mixed_engine, remote_engine
from specdemo.ui.runs import Run
from specdemo.ui.servers import offered
from specdemo.ui.show import Show
from specdemo.ui.text import LANGUAGES, tell
from specdemo.ui.worker import Ended, Order, Worker
from tests.remote.server import Script, serving, writing
from tests.test_cli import TOKENIZER, FakePair, lane_steps

PROMPT = "Where?"
TEXT = "The cat sat on the mat."
HERE = {Lane.BASELINE: "--speculative-url", Lane.SPECULATIVE: "--baseline-url"}


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> FakePair:
    """What is loaded here, whatever is asked for: it drafts three bytes at a time, all of them right."""
    pair = FakePair(facts={"target": "org/tiny", "drafter": "scripted", "draft cost": "c", "promise": "bits"})
    lanes = {lane: lane_steps(TEXT, drafts=lane is Lane.SPECULATIVE) for lane in Lane}
    monkeypatch.setattr("specdemo.race.lanes", lambda *_: {lane: iter_of(steps) for lane, steps in lanes.items()})
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda spec, progress: pair)
    return pair


def iter_of(steps: list) -> Iterator:
    yield from steps


@pytest.fixture
def server() -> Iterator[Script]:
    """It serves the same model: its folder bears the name, and the prompt has the same ids."""
    script = writing()
    script.models = (200, json.dumps({"data": [{"id": "model", "root": "/models/Tiny-v1", "max_model_len": 64}]}))
    script.tokens = lambda body: TOKENIZER.encode(PROMPT)
    with serving(script):
        yield script


def remote(server: Script, here: Lane, *options: str) -> int:
    return cli.main(["remote", HERE[here], server.url, "--max-new-tokens", "23", *options, PROMPT])


@pytest.mark.parametrize("here", Lane)
@pytest.mark.parametrize("mode", Mode)
def test_the_terminal_races_and_says_that_it_is_not_like_for_like(
    pair, server, tmp_path: Path, capsys, here: Lane, mode: Mode
) -> None:
    server.stream = writing(accepted=2 if here is Lane.BASELINE else None).stream
    file, log = tmp_path / "race.json", tmp_path / "log.jsonl"
    kept = ["--json", str(file), "--log", str(log), "--tag", "mixed"]
    assert remote(server, here, "--mode", mode.replace(" ", "-"), *kept) == 0
    out = capsys.readouterr().out
    assert "ratio, not like for like" in out and "Not like for like, " in out
    assert f"the {here} lane ran on this machine" in out and "faster:" not in out
    record = RaceRecord.of(trace_files.load(file))
    assert record.known.here == here and record.known.remote and "promise" not in record.known.pair
    assert "".join(record.lanes[here].texts) == TEXT and record.metrics(Lane.SPECULATIVE).tokens == 23
    assert record.known.pair["target"] == "org/tiny" and record.known.pair["served model"] == "model"
    assert ("drafter" in record.known.pair) == (here is Lane.SPECULATIVE)
    entry = json.loads(next(lines_of(log)))
    assert (entry["source"], entry["tag"], entry["speedup"], entry["c"]) == ("remote", "mixed", None, None)
    asked = next(body for path, body in server.asked if path == "/v1/completions")
    assert asked["prompt"] == TOKENIZER.encode(PROMPT)


def spoil_ids(server: Script) -> None:
    server.tokens = lambda body: [1, 2]


def spoil_tokenizer(server: Script) -> None:
    server.tokenizer = False


def spoil_name(server: Script) -> None:
    server.models = (200, json.dumps({"data": [{"id": "other", "root": "org/other"}]}))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (spoil_ids, "make different tokens of the prompt"),
        (spoil_tokenizer, "cannot say which tokens a prompt has"),
        (spoil_name, "say so with --model other"),
    ],
)
def test_another_model_is_refused(pair, server, capsys, spoil: Callable[[Script], None], expected: str) -> None:
    spoil(server)
    assert remote(server, Lane.SPECULATIVE) == 2
    assert expected in capsys.readouterr().err
    assert not any(path == "/v1/completions" for path, _ in server.asked)


def test_a_server_that_is_not_there_is_said_before_a_model_is_loaded(server, monkeypatch, capsys) -> None:
    monkeypatch.setattr("specdemo.models.pair.load_pair", lambda *_: pytest.fail("loaded"))
    server.health = (503, "")
    assert remote(server, Lane.SPECULATIVE) == 2 and "status 503" in capsys.readouterr().err
    engine = mixed_engine(Lane.SPECULATIVE, replace(real_engine(), load=lambda *_: pytest.fail("loaded")))
    with pytest.raises(RemoteFault, match="status 503"):
        engine.load(MixedSpec(PairSpec(), Servers(server.url, None)), lambda *_: None, None)


def test_a_model_under_another_name_is_taken_at_a_persons_word(pair, server) -> None:
    spoil_name(server)
    assert remote(server, Lane.SPECULATIVE, "--model", "other") == 0


def test_how_a_server_drafts_is_refused_and_how_the_lane_here_drafts_is_not(pair, server, capsys) -> None:
    assert remote(server, Lane.BASELINE, "--gamma", "3") == 2
    assert "--gamma: how a server drafts is its own" in capsys.readouterr().err
    assert remote(server, Lane.BASELINE, "--drafter", "ngram") == 2
    assert "--drafter: how a server drafts is its own" in capsys.readouterr().err
    assert remote(server, Lane.SPECULATIVE, "--gamma", "3", "--drafter", "ngram") == 0


def test_no_server_at_all_is_refused_with_what_to_name(capsys) -> None:
    assert cli.main(["remote", PROMPT]) == 2
    assert "No server is named" in capsys.readouterr().err


def test_what_both_run_is_what_both_can(pair, server) -> None:
    mixed = mix(Servers(server.url, None), pair)
    assert isinstance(mixed, MixedPair) and mixed.context == 64
    ids = tuple(range(60))
    drawn = mixed.check(Request(ids, params=Request(ids).params.__class__(temperature=0.7), max_new_tokens=99))
    assert (drawn.rule, drawn.max_new_tokens, drawn.reuse) == (Rule.REJECTION, 4, False)
    assert mixed.check(Request(ids)).rule is Rule.SHARED_NOISE and mixed.check(Request(ids)).gamma == 5
    mixed.close()
    other = mix(Servers(None, server.url), pair)
    assert (other.check(Request(ids)).rule, other.check(Request(ids)).gamma) == (Rule.REJECTION, 0)
    other.close()


def raced_on_the_page(server: Script, pair: FakePair, here: Lane) -> tuple[Show, Run]:
    urls = {Lane.BASELINE: (None, server.url), Lane.SPECULATIVE: (server.url, None)}[here]
    own = real_engine()
    own = own.__class__(**{name: getattr(own, name) for name in own.__dataclass_fields__} | of_fake(pair))
    desk = Desk(mixed_engine(here, own), MixedSpec(PairSpec(drafter=NGRAM), Servers(*urls, timeout=5)))
    asked = Request((), max_new_tokens=23)
    worker, run = Worker(desk, Order(PROMPT, desk.spec, asked)).start(), Run(RaceRecord(PROMPT, asked))
    show, events = Show(run), []
    while not show.over:
        events += (drained := worker.drain(0.5))
        show.take(drained)
    assert events[-1] == Ended(stopped=False) and any(isinstance(one, Settled) for one in events)
    return show, run


def of_fake(pair: FakePair) -> dict:
    def encode(pair: FakePair, prompt: str, before: Conversation, thinking: bool | None) -> list[int]:
        return TOKENIZER.encode(prompt)

    return {"load": lambda *_: pair, "facts": lambda _: ["tiny", "scripted"], "encode": encode}


@pytest.mark.parametrize("here", Lane)
def test_the_page_labels_it_wherever_a_ratio_is_shown(pair, server, here: Lane) -> None:
    server.stream = writing(accepted=2 if here is Lane.BASELINE else None).stream
    show, run = raced_on_the_page(server, pair, here)
    board, record = json.loads(show.values[2]), show.record
    assert board["verdict"][0] == "remote.mixed" and board["wins"] is False and board["speed"]
    assert board["speedNote"] == ["remote.mixed.mark", {}] and board["clocks"] == "remote.mixed.clocks"
    for language, like in zip(LANGUAGES, ("ot like for like", "不可直接比较", "不可直接比較"), strict=True):
        assert like in tell(language, board["verdict"]) and like in report.as_markdown(record, language)
    row = report.row(run)
    assert row["unlike"] and row["speedup"]
    assert _answer(record, "done", race=False)["like_for_like"] is False
    assert chart_figures(record, record.comparison)["paid"] is None
    assert "try" not in board or not board["try"]
    origins = {token.origin for step in record.lanes[here].steps for token in step.tokens}
    assert Origin.UNKNOWN not in origins
    if here is Lane.SPECULATIVE:  # this machine tells all of its steps
        assert glass.view(run, Lane.SPECULATIVE, 2)["rows"] and "judged" not in glass.view(run, Lane.SPECULATIVE, 2)
    else:
        assert glass.view(run, Lane.SPECULATIVE, 2)["judged"] == "remote.glass"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--allow-server", "http://one:1"], "give --baseline-url"),
        (["--baseline-url", "http://one:1", "--allow-server", "file:///etc/passwd"], "no address of a server"),
        (["--baseline-url", "http://name:word@one:1"], "takes no name"),
    ],
)
def test_addresses_are_looked_at_before_the_page_starts(options: list[str], expected: str) -> None:
    with pytest.raises(RemoteFault, match=expected):
        servers(app_parser().parse_args(options))


def test_what_may_be_chosen_is_the_servers_that_race_and_those_allowed() -> None:
    args = ["--baseline-url", "http://one:1/v1", "--allow-server", "http://two:2/", "--allow-server", "http://three:3"]
    asked = servers(app_parser().parse_args(args))
    assert asked.here is Lane.SPECULATIVE and asked.allowed == ("http://two:2", "http://three:3")
    assert offered(asked) == {"baseline_server": ("http://one:1", "http://two:2", "http://three:3")}


def test_a_page_says_how_its_lanes_share_time_before_any_run() -> None:
    spec = MixedSpec(PairSpec(), Servers("http://one:1", None))
    assert Page(Desk(mixed_engine(Lane.SPECULATIVE), spec))._clocks() == "remote.mixed.clocks"
    assert Page(Desk(remote_engine(), Servers("http://one:1", "http://two:2")))._clocks() == "remote.clocks"
