"""`python -m specdemo remote` over two scripted servers: what it shows, keeps and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdemo import cli, terminal, trace_files
from specdemo.app_options import app_parser
from specdemo.config import configure
from specdemo.decoding.steps import Rule
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.remote import lane as remote_lane
from specdemo.remote.faults import RemoteFault
from specdemo.remote.options import refuse_theirs
from specdemo.remote.options import servers as named
from specdemo.request_log import SERVED, lines_of
from tests.remote.server import Script, beginning, serving, without_ids


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_lane, "SCRAPES_APART", 0)


@pytest.fixture
def servers() -> Iterator[tuple[Script, Script]]:
    with serving(Script()) as plain, serving(Script("speculative.sse", ("before.prom", "after.prom"))) as other:
        yield plain, other


def remote(servers: tuple[Script, Script], *options: str, prompt: str = "Where is the cat?") -> int:
    urls = ["--baseline-url", servers[0].url, "--speculative-url", f"{servers[1].url}/v1"]
    return cli.main(["remote", *urls, "--timeout", "5", *options, prompt])


def test_both_lanes_are_shown_and_kept_as_local_ones_are(servers, tmp_path: Path, capsys) -> None:
    file, log = tmp_path / "race.json", tmp_path / "log.jsonl"
    assert remote(servers, "--json", str(file), "--log", str(log)) == 0
    out = capsys.readouterr().out
    assert out.count("The cat sat on the mat. The cat sat on the mat.") == 2
    assert "Identical, 15 of 15 tokens." in out
    assert "each step of the server, its draft included, produced 2.33 tokens" in out
    assert "agree with the server's counters" in out and "Clock: arrival times" in out
    record = RaceRecord.of(trace_files.load(file))
    speculative = record.metrics(Lane.SPECULATIVE)
    assert speculative.draft_acceptance_rate == 9 / 24 and speculative.mean_acceptance_length == 2.5
    assert record.request.rule is Rule.REJECTION and record.request.gamma == 4
    assert record.request.prompt_ids == (1, 5, 6)
    assert record.known.pair["speculative provenance"] == "from chunks that agree with the server's counters"
    entry = json.loads(next(lines_of(log)))
    kept = {name: entry[name] for name in SERVED if name in entry}
    assert set(kept) == {"clock", *(f"{lane} {what}" for lane in Lane for what in ("server", "provenance"))}
    assert kept.items() <= record.known.pair.items() and entry["E"] == pytest.approx(14 / 6)
    assert cli.main(["log", str(log)]) == 0 and "2.33" in capsys.readouterr().out


def test_the_same_is_asked_of_both_servers(servers) -> None:
    assert remote(servers, "--temperature", "0.7", "--top-k", "40", "--stop", "END", "--max-new-tokens", "99") == 0
    bodies = [next(body for path, body in one.asked if path == "/v1/completions") for one in servers]
    assert bodies[0] == bodies[1]
    assert bodies[0]["prompt"] == [1, 5, 6] and bodies[0]["top_k"] == 40 and bodies[0]["stop"] == ["END"]
    assert "top_p" not in bodies[0] and bodies[0]["return_token_ids"] is True
    assert bodies[0]["max_tokens"] == 61  # what the context leaves


def test_shared_server_figures_are_marked_as_such(servers, tmp_path: Path, capsys) -> None:
    log = tmp_path / "log.jsonl"
    servers[1].metrics[1] = servers[1].metrics[1].replace("} 106.0", "} 110.0")
    assert remote(servers, "--log", str(log)) == 0
    assert json.loads(next(lines_of(log)))["E"] is None  # chunks are not passes
    out = capsys.readouterr().out
    assert "shared-server figures" in out and "approximate" in out
    assert "which tokens were drafted is not known" in out
    assert "No speculation" not in out and "≈ 6" in out


def test_a_baseline_that_speculates_is_said(capsys) -> None:
    one, other = (Script("speculative.sse", ("before.prom", "after.prom")) for _ in range(2))
    with serving(one), serving(other):
        assert remote((one, other)) == 0
    assert "start it without --speculative-config" in capsys.readouterr().out


def test_a_server_without_a_chat_template_is_given_the_plain_prompt(servers, capsys) -> None:
    servers[0].template = servers[1].template = False
    assert remote(servers) == 0
    assert capsys.readouterr().out.count("applied no chat template, and read the plain prompt") == 2


def test_a_lane_that_broke_keeps_its_text_and_ends_with_a_fault(servers, tmp_path: Path, capsys) -> None:
    status, text = servers[1].stream
    servers[1].stream = (status, "\n\n".join([*text.split("\n\n")[:3], ""]))
    file = tmp_path / "race.json"
    assert remote(servers, "--json", str(file)) == 2
    out = capsys.readouterr().out
    assert "no speedup is shown" in out and "×" not in out and "ended its answer in the middle" in out
    assert len(trace_files.load(file).speculative.tokens) == 5


def test_text_without_ids_is_shown_when_the_server_dies_and_nothing_is_counted(servers, tmp_path: Path, capsys) -> None:
    beginning(without_ids(servers[1]), 3)
    servers[1].tokens = lambda body: [1, 5, 6] if "messages" in body else []
    file, log = tmp_path / "race.json", tmp_path / "log.jsonl"
    assert remote(servers, "--json", str(file), "--log", str(log)) == 2
    out = capsys.readouterr().out
    assert "What had arrived is kept." in out and "gave text without token ids" in out and "no speedup is shown" in out
    assert "– tok/s · – tokens" in out and "Identical" not in out and "parted" not in out
    record = RaceRecord.of(trace_files.load(file))
    assert "".join(record.lanes[Lane.SPECULATIVE].texts).startswith("The cat sat")
    assert json.loads(next(lines_of(log)))["lanes"]["speculative"]["tokens"] is None


def test_ctrl_c_keeps_what_had_arrived(servers, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    shown = []

    def interrupted(view: object) -> None:
        shown.append(view)
        if len(shown) == 17:  # in the middle of the speculative lane
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.RaceView, "update", interrupted)
    assert remote(servers) == 130
    assert "The cat sat" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("models", "options", "expected"),
    [
        (["other"], [], "--served-model-name"),
        (["tiny", "other"], [], "--model"),
        (["other"], ["--model", "tiny"], "does not serve tiny"),
        (["tiny"], ["--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
        (["tiny"], ["--api-key", "sk-secret"], "takes the name of an environment variable: put the key in one"),
        (["tiny"], ["--drafter", "ngram"], "--drafter: how a server drafts"),
        (["tiny"], ["--draft-temperature", "1"], "--draft-temperature: how a server drafts"),
        (["tiny"], ["--device", "cpu"], "--device is of a lane on this machine"),
        (["tiny"], ["--temperature", "9"], "The temperature"),
        (["tiny"], ["--timeout", "0"], "timeout"),
        (["tiny"], ["--timeout", "inf"], "timeout"),
        (["tiny"], ["--json", "/"], "folder"),
    ],
)
def test_what_cannot_be_raced_is_refused(servers, capsys, models: list[str], options: list[str], expected: str) -> None:
    servers[1].models = (200, json.dumps({"data": [{"id": name} for name in models]}))
    assert remote(servers, *options) == 2
    said = capsys.readouterr().err
    assert expected in said and "secret" not in said


def test_a_page_over_servers_refuses_the_same_options_and_passes_over_them_in_a_file(servers, tmp_path: Path) -> None:
    file, parser = tmp_path / "demo.yaml", app_parser()
    file.write_text("drafter: ngram\ngamma: 8\n")
    asked = ["--config", str(file), "--baseline-url", servers[0].url, "--speculative-url", servers[1].url]
    configure(parser, asked)
    args = parser.parse_args(asked)
    refuse_theirs(args, named(args), parser.get_default)
    with pytest.raises(RemoteFault, match="--gamma: how a server drafts"):
        refuse_theirs(parser.parse_args([*asked, "--gamma", "3"]), named(args), parser.get_default)


def test_servers_that_read_the_prompt_differently_are_refused(servers, capsys) -> None:
    servers[1].tokens = lambda body: [1, 5, 7]
    assert remote(servers) == 2
    assert "chat template" in capsys.readouterr().err


def test_a_prompt_longer_than_the_context_is_refused(servers, capsys) -> None:
    for one in servers:
        one.tokens = lambda body: [5] * 64
    assert remote(servers) == 2
    assert "shorten it" in capsys.readouterr().err
