"""A server's stream as a lane: who wrote what, by whose clock, and what is kept when it breaks."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from specdemo.decoding.steps import UNTOLD, Origin, Stop, Why
from specdemo.metrics import LaneMetrics
from specdemo.race import Lane
from specdemo.remote import endpoint as remote_endpoint
from specdemo.remote import lane as remote_lane
from specdemo.remote import wire
from specdemo.remote.endpoint import Endpoint
from specdemo.remote.facts import Provenance
from specdemo.remote.faults import RemoteFault
from specdemo.remote.lane import KEPT, Asked, RemoteLane
from specdemo.remote.refusals import _wait
from tests.remote.server import Script, beginning, serving, transcript, without_ids

SPECULATIVE = {"stream": "speculative.sse", "metrics": ("before.prom", "after.prom")}
IDS = [10, 11, 12, 13, 14, 15, 16, 17, 11, 12, 13, 14, 15, 16, 2]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_lane, "SCRAPES_APART", 0)


@pytest.fixture
def run():
    """Runs one lane over a scripted server: the lane, what came live, and what was settled.

    later: what happens between the lane's end and that of the race.
    """
    with ExitStack() as stack:

        def over(script: Script, timeout: float = 5.0, server_times: bool = False, later=lambda: None, **settings):
            stack.enter_context(serving(script))
            endpoint = Endpoint(script.url, timeout=timeout)
            stack.callback(endpoint.close)
            lane = RemoteLane(Lane.SPECULATIVE, endpoint, Asked("tiny", (1, 5, 6), 32, {"temperature": 0, **settings}))
            live = list(lane.run())
            later()
            return lane, live, lane.settle(server_times)

        yield over


def texts_of(steps: list) -> str:
    return "".join(text for wrote in steps for text in wrote.texts)


def completions(script: Script) -> list[dict]:
    return [body for path, body in script.asked if path == "/v1/completions"]


def ids_of(steps: list) -> list[int]:
    return [token.id for wrote in steps for token in wrote.step.tokens]


def test_a_plain_server_writes_one_token_a_step(run) -> None:
    lane, live, settled = run(Script())
    assert ids_of(live) == ids_of(settled) == IDS
    assert {token.origin for wrote in live for token in wrote.step.tokens} == {Origin.UNKNOWN}
    assert {token.origin for wrote in settled for token in wrote.step.tokens} == {Origin.TARGET}
    assert lane.provenance is Provenance.PLAIN
    assert settled[0].step.why is Why.PREFILL and settled[-1].step.stop is Stop.EOS


def test_chunks_that_agree_with_the_counters_are_coloured(run) -> None:
    lane, _, settled = run(Script(**SPECULATIVE))
    assert lane.provenance is Provenance.COUNTED
    metrics = LaneMetrics.of(wrote.step for wrote in settled)
    assert metrics.ids == IDS
    assert (metrics.drafted, metrics.accepted, metrics.steps_that_drafted) == (24, 9, 6)
    assert metrics.acceptance_per_position == (4 / 6, 3 / 6, 1 / 6, 1 / 6)
    assert metrics.tokens_by_origin == Counter(
        {Origin.ACCEPTED: 9, Origin.CORRECTED: 4, Origin.BONUS: 1, Origin.TARGET: 1}
    )
    assert [one.id for one in settled[2].step.drafted] == [12, 13, UNTOLD, UNTOLD]


def test_each_token_has_its_own_text_where_the_server_spells_it(run) -> None:
    _, live, settled = run(Script(**SPECULATIVE))
    assert live[2].texts == (" sat on the", "", "")
    assert settled[2].texts == (" sat", " on", " the")
    assert settled[-1].texts == (".", "")  # the end of text adds nothing


def test_without_a_detokenizer_a_chunk_is_one_text(run) -> None:
    script = Script(**SPECULATIVE)
    script.tokenizer = False
    _, _, settled = run(script)
    assert settled[2].texts == (" sat on the", "", "")


def test_a_server_that_tells_of_the_request_needs_no_counters(run) -> None:
    script = Script("told.sse", ())
    lane, _, settled = run(script, server_times=True)
    assert lane.provenance is Provenance.TOLD
    metrics = LaneMetrics.of(wrote.step for wrote in settled)
    assert metrics.accepted == 9
    assert metrics.prefill_seconds == pytest.approx(0.04)
    assert metrics.decode_seconds == pytest.approx(0.12)


def test_metrics_of_another_shape_are_left_out(run) -> None:
    script = Script(**SPECULATIVE)
    script.stream = (200, transcript("told.sse").replace("num_spec_steps", "steps").replace("40.0", '"fast"'))
    lane, _, settled = run(script, server_times=True)
    assert lane.provenance is Provenance.COUNTED and lane.times is None
    assert ids_of(settled) == IDS


def test_counters_of_a_shared_server_colour_nothing_and_are_kept(run) -> None:
    after = transcript("after.prom").replace("} 106.0", "} 150.0")
    script = Script(**SPECULATIVE)
    script.metrics[1] = after
    lane, _, settled = run(script)
    assert lane.provenance is Provenance.UNKNOWN and lane.between.drafts == 50
    assert {token.origin for wrote in settled for token in wrote.step.tokens} == {Origin.UNKNOWN}
    assert not any(wrote.step.drafted for wrote in settled)


@pytest.mark.parametrize("early", [0, 1])
def test_a_lanes_counters_are_asked_as_it_ends_and_once_more_if_that_was_too_early(run, early: int) -> None:
    """What other requests counted until both lanes are over is none of it."""
    script = Script("speculative.sse", ("before.prom",) * (1 + early) + ("after.prom",))

    def another_request() -> None:
        script.metrics = [transcript("after.prom").replace("} 106.0", "} 150.0")]
        asked.append(len(script.asked))

    asked: list[int] = []
    lane, _, _ = run(script, later=another_request)
    assert lane.provenance is Provenance.COUNTED and lane.between.drafts == 6
    paths = [path for path, _ in script.asked]
    assert paths[: asked[0]] == ["/metrics", "/v1/completions", "/metrics", "/metrics"][: 3 + early]
    assert "/metrics" not in paths[asked[0] :]


def test_without_metrics_nobody_is_responsible(run) -> None:
    lane, _, _ = run(Script("speculative.sse", ()))
    assert lane.provenance is Provenance.UNKNOWN


def test_a_server_without_token_ids_is_retokenised_and_marked(run) -> None:
    lane, live, settled = run(without_ids(Script()))
    assert lane.retokenised and lane.provenance is Provenance.UNKNOWN
    assert set(ids_of(live)) == {UNTOLD} and texts_of(live) == texts_of(settled)
    assert ids_of(settled) == IDS[:-1]  # the end of text has no text


def no_tokenizer(script: Script) -> None:
    script.tokenizer = False


def no_server(script: Script) -> None:
    script.hangs_up = {"/tokenize": 99}


def no_ids(script: Script) -> None:
    script.tokens = lambda body: []


def endless_ids(script: Script) -> None:
    script.tokens = lambda body: [1] * 1000


@pytest.mark.parametrize(
    ("spoil", "chunks"), [(no_tokenizer, 99), (no_tokenizer, 3), (no_server, 3), (no_ids, 3), (endless_ids, 3)]
)
def test_text_is_kept_without_figures_where_no_tokenizer_makes_ids_of_it(run, spoil, chunks: int) -> None:
    script = beginning(without_ids(Script()), chunks)
    lane, live, settled = run(script, later=lambda: spoil(script))
    assert texts_of(settled) == texts_of(live) and texts_of(settled).startswith("The cat sat")
    assert lane.fault.endswith(KEPT) and lane.untold and not lane.retokenised
    assert settled[-1].step.stop is (Stop.FAULT if chunks == 3 else Stop.EOS)
    metrics = LaneMetrics.of(wrote.step for wrote in settled)
    figures = [metrics.told_tokens, metrics.tokens_per_second, metrics.end_to_end_tokens_per_second]
    assert [*figures, metrics.tokens_per_target_pass] == [None] * 4 and not any(metrics.tokens_per_step.values())


def refusing(whole: tuple, *names: str, inside: bool = False, param: str | None = None):
    """Answers only to requests that have none of these fields."""

    def answer(body: dict) -> tuple:
        unknown = [name for name in names if name in body]
        error = json.dumps({"error": {"message": f"Unrecognized arguments: {', '.join(unknown)}", "param": param}})
        return whole if not unknown else (200, f"data: {error}\n\n") if inside else (400, error)

    return answer


@pytest.mark.parametrize("inside", [False, True])
def test_what_changes_no_distribution_is_dropped_and_named_for_that_request_alone(run, inside: bool) -> None:
    script = Script()
    whole = script.stream
    answer, at = refusing(whole, "seed", "return_token_ids", inside=inside), []
    script.stream = lambda body: at.append(time.perf_counter()) or answer(body)
    lane, _, settled = run(script, seed=7)
    assert at[1] < lane.began < at[2]  # what was refused is not of the first token's time
    assert sorted(lane.dropped) == ["return_token_ids", "seed"] and ids_of(settled) == IDS and lane.fault is None
    assert "seed" not in completions(script)[-1] and len(completions(script)) == 3
    script.stream = whole  # upgraded
    again = RemoteLane(Lane.SPECULATIVE, lane.endpoint, Asked("tiny", (1, 5, 6), 32, {"seed": 7}))
    assert [*again.run()] and again.dropped == [] and completions(script)[-1]["return_token_ids"] is True


@pytest.mark.parametrize(("name", "param"), [("top_k", True), ("min_p", False), ("repetition_penalty", False)])
def test_what_changes_the_distribution_is_refused_by_its_name(run, name: str, param: bool) -> None:
    script = Script()
    script.stream = refusing(script.stream, name, "seed", param=name if param else None)
    lane, _, settled = run(script, seed=7, **{name: 0.5})
    assert f"does not take this {name} (" in lane.fault and lane.fault.endswith("leave it off.") and settled == []
    assert lane.dropped == ([] if param else ["seed"])


def test_what_had_arrived_is_kept_when_an_error_comes_mid_stream(run) -> None:
    first = transcript("plain.sse").split("\n\n")[:4]
    error = {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}
    script = Script()
    script.stream = (200, "\n\n".join([*first, f"data: {json.dumps(error)}", "data: [DONE]", ""]))
    lane, _, settled = run(script)
    assert "EngineCore died" in lane.fault and "see what it logged" in lane.fault
    assert ids_of(settled) == IDS[:4] and settled[-1].step.stop is Stop.FAULT


def test_text_that_comes_without_tokens_belongs_to_those_before(run) -> None:
    late = json.dumps({"choices": [{"index": 0, "text": " late", "token_ids": [], "finish_reason": "stop"}]})
    script = Script()
    script.stream = (200, transcript("plain.sse").split("\n\n")[0] + f"\n\ndata: {late}\n\n")
    lane, _, settled = run(script)
    assert lane.fault is None and [wrote.texts for wrote in settled] == [("The late",)]


def test_text_without_tokens_and_without_end_is_not_taken(run) -> None:
    more = json.dumps({"choices": [{"index": 0, "text": "ha " * 1000, "token_ids": []}]})
    script = Script()
    script.stream = (200, transcript("plain.sse").split("\n\n")[0] + "\n\n" + f"data: {more}\n\n" * 20)
    assert "more than it was asked for" in run(script)[0].fault


def test_half_a_sign_is_text_that_a_file_can_hold(run) -> None:
    script = Script()
    script.stream = (200, transcript("plain.sse").replace('"text": "The"', '"text": "\\ud800"', 1))
    _, _, settled = run(script)
    assert settled[0].texts[0].encode() == b"?"


def test_a_draft_longer_than_any_is_told_by_no_engine(run) -> None:
    script = Script(**SPECULATIVE)
    told = {"per_step_accepted": [0], "per_step_drafted": [2**62], "acceptance_histogram": [1]}
    counts = dict.fromkeys(("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "num_spec_tokens"), 1)
    last = json.dumps({"choices": [], "metrics": {"speculative_decoding": told | counts}})
    script.stream = (200, transcript("speculative.sse").replace("data: [DONE]", f"data: {last}\n\ndata: [DONE]"))
    lane, _, settled = run(script)
    assert lane.provenance is Provenance.COUNTED and ids_of(settled) == IDS


def test_an_answer_that_the_server_gave_up_is_a_fault(run) -> None:
    script = Script()
    script.stream = (200, transcript("plain.sse").replace('"finish_reason": "stop"', '"finish_reason": "abort"'))
    lane, _, settled = run(script)
    assert "gave up the answer (abort)" in lane.fault and settled[-1].step.stop is Stop.FAULT


def test_more_than_was_asked_for_is_not_taken(run) -> None:
    script = Script()
    script.stream = (200, transcript("plain.sse").split("\n\n")[0] + "\n\n")
    script.stream = (200, script.stream[1] * 50)
    lane, live, _ = run(script)
    assert "more than it was asked for" in lane.fault and len(live) == 33


@pytest.mark.parametrize(
    ("reason", "stop_reason", "expected"),
    [("length", None, Stop.BUDGET), ("stop", "END", Stop.STOP_STRING), ("stop", 7, Stop.EOS)],
)
def test_why_a_lane_ended_is_told(run, reason: str, stop_reason: object, expected: Stop) -> None:
    last = f'"finish_reason": "{reason}", "stop_reason": {json.dumps(stop_reason)}'
    script = Script()
    script.stream = (200, transcript("plain.sse").replace('"finish_reason": "stop", "stop_reason": null', last))
    _, _, settled = run(script)
    assert settled[-1].step.stop is expected


def test_a_connection_that_breaks_before_anything_came_is_made_once_more(run) -> None:
    script = Script()
    script.hangs_up = {"/v1/completions": 1}
    lane, _, settled = run(script)
    assert lane.fault is None and ids_of(settled) == IDS and len(completions(script)) == 2
    script.hangs_up = {"/v1/completions": 2}
    lane, _, settled = run(script)
    assert "see whether the server runs" in lane.fault and KEPT not in lane.fault and settled == []
    assert len(completions(script)) == 4


@pytest.mark.parametrize(("status", "without"), [(429, "wait a little"), (503, "see what it logged")])
def test_when_to_ask_again_is_said_as_the_server_says_it(run, status: int, without: str) -> None:
    script = Script()
    for said, expected in (("7", "wait 7 s, and run again"), ("soon", without)):
        script.stream, script.headers = (status, ""), {"Retry-After": said}
        assert expected in run(script)[0].fault


def test_a_time_that_no_person_waits_is_not_said() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    assert 7190 < _wait({"Retry-After": date}) <= 7200
    never = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 9999 08:49:37 GMT", "Sun, 06 Nov 2094 99:99:99 +9999999999"]
    hostile = ["", "0", "-5", "1e9", "86401", "9" * 5000, "soon", "7 s; rm", "\xb2"]
    assert [_wait({"Retry-After": said}) for said in never + hostile] == [None] * 12 and _wait({}) is None


@pytest.mark.parametrize("cut", [True, False])
def test_a_connection_that_ends_in_the_middle_is_said(run, cut: bool) -> None:
    script = Script()
    script.cut = cut
    lane, _, settled = run(beginning(script, 3))
    assert ("failed" if cut else "in the middle") in lane.fault and lane.fault.endswith(KEPT)
    assert ids_of(settled) == IDS[:3] and len(completions(script)) == 1


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (401, "Unauthorized", "--api-key-env"),
        (404, "The model `x` does not exist.", "/v1/models"),
        (429, "Too many requests", "wait a little"),
        (400, "max_tokens is too large", "max_tokens is too large"),
        (500, "out of memory", "status 500"),
        (503, "", "see what it logged"),
    ],
)
def test_a_refusal_is_a_sentence(run, status: int, said: str, expected: str) -> None:
    script = Script()
    script.stream = (status, json.dumps({"error": {"message": said}}))
    lane, _, settled = run(script)
    assert expected in lane.fault and lane.fault.endswith(".")
    assert "\n" not in lane.fault and settled == []


def test_a_setting_that_the_server_refuses_is_named(run) -> None:
    script = Script()
    script.stream = (400, json.dumps({"error": {"message": "Unknown parameter: top_k"}}))
    lane, _, _ = run(script, top_k=5)
    assert "does not take this top_k" in lane.fault and "leave it off" in lane.fault


def test_a_silent_server_is_given_up(run) -> None:
    script = Script()
    script.silent = True
    lane, _, settled = run(script, timeout=0.05)
    assert "silent for 0.05 s" in lane.fault and settled == []


@pytest.mark.parametrize(
    "body",
    [
        b"data: {nonsense\n\n",
        b"data: 7\n\n",
        b'data: {"choices": 3}\n\n',
        b'data: {"choices": [{"text": "a", "token_ids": [-5]}]}\n\n',
        b"<html></html>",
        b"data: \xff\xfe\n\n",
        b'data: {"choices": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n\n",
    ],
)
def test_garbage_is_said(run, body: bytes) -> None:
    script = Script()
    script.stream = (200, body)
    lane, _, settled = run(script)
    assert lane.fault.startswith("The server at 127.0.0.1") and settled == []


def test_a_redirect_is_not_followed(run) -> None:
    with serving(Script()) as elsewhere:
        script = Script()
        script.stream, script.headers = (307, ""), {"Location": f"{elsewhere.url}/v1/completions"}
        lane, _, _ = run(script)
        assert "not followed" in lane.fault and elsewhere.asked == []


def test_a_server_that_keeps_a_connection_alive_without_a_word_is_silent_and_can_be_stopped(run, monkeypatch) -> None:
    """A line of comment now and then is traffic, for a client that waits for any."""
    monkeypatch.setattr(remote_lane, "GRACE", 0.0)
    monkeypatch.setattr(Endpoint, "stream", lambda *_: iter(lambda: time.sleep(0.01) or wire.Chunk(), None))
    lane, live, _ = run(Script(), timeout=0.2)
    assert not live and "silent for 0.2 s" in lane.fault


def test_what_trickles_is_not_waited_for_beyond_the_timeout(monkeypatch) -> None:
    monkeypatch.setattr(remote_endpoint, "GRACE", 0.0)
    never = threading.Event()
    with serving(Script()) as server:
        endpoint = Endpoint(server.url, timeout=0.1)
        monkeypatch.setattr(endpoint, "_asked", lambda *_: never.wait())
        with pytest.raises(RemoteFault, match=r"silent for 0\.1 s"):
            endpoint.models()
        never.set()
        endpoint.close()


def test_a_router_before_engines_says_nothing_of_speculation(run) -> None:
    script = Script(metrics=())
    script.metrics = ["# TYPE vllm:current_qps gauge\nvllm:current_qps 3.0\n"]
    lane, _, _ = run(script)
    assert lane.provenance is Provenance.UNKNOWN


@pytest.mark.parametrize("milliseconds", [0, 1e-300, 1e300])
def test_absurd_times_of_a_server_are_not_taken(run, milliseconds: float) -> None:
    stream = [{"choices": [{"text": "The", "token_ids": [10]}]}]
    stream.append({"choices": [{"text": " cat", "token_ids": [11], "finish_reason": "length"}]})
    stream.append({"choices": [], "metrics": {"time_to_first_token_ms": 5.0, "generation_time_ms": milliseconds}})
    script = Script()
    script.stream = (200, "".join(f"data: {json.dumps(one)}\n\n" for one in stream) + "data: [DONE]\n\n")
    lane, _, _ = run(script, server_times=True)
    assert lane.times is None and lane.fault is None
