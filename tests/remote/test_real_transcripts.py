"""What two real vLLM servers sent (tests/data/vllm), replayed: every figure agrees with the server's own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from specdemo.decoding.steps import Origin, Stop
from specdemo.metrics import LaneMetrics
from specdemo.race import Lane, Mode, Request
from specdemo.recording import RaceRecord, Wrote
from specdemo.remote import lane as remote_lane
from specdemo.remote import racing
from specdemo.remote.counters import difference, parse
from specdemo.remote.endpoint import Endpoint
from specdemo.remote.facts import SERVER, Provenance
from specdemo.remote.lane import Asked, RemoteLane
from specdemo.remote.options import Servers
from specdemo.remote.wire import Chunk, read
from tests.remote.server import RECORDED, Script, messages, recorded, serving

SPECULATIVE = ["eagle", "eagle_sampled", "eagle_shared", "ngram"]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_lane, "SCRAPES_APART", 0)


def run(script: Script, server_times: bool = False, **settings: float) -> tuple[RemoteLane, LaneMetrics, list[Wrote]]:
    with serving(script):
        endpoint = Endpoint(script.url, timeout=5)
        lane = RemoteLane(Lane.SPECULATIVE, endpoint, Asked("model", (1, 5), 64, settings))
        list(lane.run())
        settled = lane.settle(server_times)
        endpoint.close()
    return lane, LaneMetrics.of(wrote.step for wrote in settled), settled


def text(settled: list[Wrote]) -> str:
    return "".join("".join(wrote.texts) for wrote in settled)


def untold(script: Script) -> Script:
    """The same server, not started with per-request metrics."""
    stream = [one | {"metrics": None} for one in messages(script.stream[1])]
    script.stream = (200, "".join(f"data: {json.dumps(one)}\n\n" for one in stream) + "data: [DONE]\n\n")
    return script


def counted(name: str):
    return difference(*(parse((RECORDED / f"{name}.{when}.prom").read_text("utf-8")) for when in ("before", "after")))


@pytest.mark.parametrize("name", SPECULATIVE)
def test_a_lane_counts_as_the_server_tells(name: str) -> None:
    lane, metrics, _ = run(recorded(name))
    told = read(Chunk, messages((RECORDED / f"{name}.sse").read_text("utf-8"))[-1]).drafting
    assert lane.provenance is Provenance.TOLD and told is not None
    assert (metrics.drafted, metrics.accepted) == (told.num_draft_tokens, told.num_accepted_draft_tokens)
    assert metrics.steps_that_drafted == told.num_spec_steps
    reached = [sum(told.acceptance_histogram[i:]) for i in range(1, 5)]
    assert metrics.acceptance_per_position == tuple(n / told.num_spec_steps for n in reached)


@pytest.mark.parametrize("name", ["eagle", "eagle_sampled", "ngram"])
def test_what_the_server_tells_of_a_request_is_what_its_counters_counted(name: str) -> None:
    _, metrics, _ = run(recorded(name))
    between = counted(name)
    assert (metrics.drafted, metrics.accepted) == (between.drafted, between.accepted)
    assert metrics.mean_acceptance_length == 1 + between.accepted / between.drafts


@pytest.mark.parametrize("name", ["eagle", "eagle_sampled"])
def test_counters_alone_tell_the_same_of_an_idle_server(name: str) -> None:
    told, counts = run(recorded(name)), run(untold(recorded(name)))
    assert counts[0].provenance is Provenance.COUNTED
    for one, other in zip(told[2], counts[2], strict=True):
        assert replace(one.step, verify_seconds=0) == replace(other.step, verify_seconds=0)


def test_counters_of_a_server_with_another_request_colour_nothing() -> None:
    lane, metrics, _ = run(untold(recorded("eagle_shared")))
    assert lane.provenance is Provenance.UNKNOWN and set(metrics.tokens_by_origin) == {Origin.UNKNOWN}
    assert lane.between == counted("eagle_shared") and lane.between.drafts > 36


def test_both_servers_wrote_the_same_and_the_head_drafted_for_it() -> None:
    plain, speculative = run(recorded("plain")), run(recorded("eagle"))
    assert plain[0].provenance is Provenance.PLAIN and plain[1].stop is Stop.BUDGET
    assert plain[1].ids == speculative[1].ids and text(plain[2]) == text(speculative[2])
    assert (plain[1].target_passes, speculative[1].target_passes) == (63, 47)
    origins = {Origin.TARGET: 1, Origin.ACCEPTED: 17, Origin.CORRECTED: 46}
    assert speculative[1].tokens_by_origin == Counter(origins)


def test_each_token_of_a_chunk_has_its_own_text() -> None:
    assert all(all(wrote.texts) for wrote in run(recorded("eagle"))[2])


def test_the_servers_clock_is_taken_as_it_tells_it() -> None:
    lane, metrics, _ = run(recorded("eagle"), server_times=True)
    assert metrics.prefill_seconds == pytest.approx(lane.times.time_to_first_token_ms / 1000)
    assert metrics.decode_seconds == pytest.approx(lane.times.generation_time_ms / 1000)


def test_a_race_is_on_the_servers_clock_where_both_told_it() -> None:
    """Both started with --enable-per-request-metrics, as scripts/vllm_pair.sh does."""
    names = ("plain_timed", "eagle")
    with serving(recorded(names[0])) as plain, serving(recorded(names[1])) as eagle:
        pair = racing.connect(Servers(plain.url, eagle.url, timeout=5))
        request = racing.check(Request((1, 5), max_new_tokens=64, mode=Mode.ONE_AFTER_ANOTHER))
        lanes = pair.lanes(request)
        list(racing.race(lanes, request.mode))
        record = RaceRecord("", request)
        record.settle(racing.settle(request, lanes))
        pair.close()
    own, other = (read(Chunk, messages((RECORDED / f"{name}.sse").read_text("utf-8"))[-1]) for name in names)
    assert own.drafting is None and lanes[Lane.BASELINE].provenance is Provenance.PLAIN
    assert record.known.pair["clock"] == SERVER and record.comparison.identical
    assert record.comparison.speedup == pytest.approx(own.times.generation_time_ms / other.times.generation_time_ms)


def test_a_whole_scrape_is_read() -> None:
    whole = parse((RECORDED / "whole.prom").read_text("utf-8"))
    assert (whole.drafts, whole.drafted, whole.accepted, whole.accepted_at) == (47, 188, 18, (14, 3, 1, 0))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("refusal", json.loads((RECORDED / "refusals.json").read_text("utf-8")))
def test_what_the_server_refuses_is_said_in_its_words(refusal: dict, inside: bool) -> None:
    script, body = recorded("plain"), json.dumps(refusal["body"])
    script.stream = (200, f"data: {body}\n\ndata: [DONE]\n\n") if inside else (refusal["status"], body)
    said = run(script, min_p=0.1, top_k=5)[0].fault
    message = refusal["body"]["error"]["message"]
    assert message.rstrip(".")[:100] in said
    for name in ("min_p", "top_k"):
        assert (f"does not take this {name}" in said) == (name in message)
