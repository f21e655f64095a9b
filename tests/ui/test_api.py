"""The API, through its real clients over a served page: what docs/api.md promises is what it does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from specdemo.race import Lane
from specdemo.ui.api import Answer, StepAnswer
from specdemo.ui.replay import read
from tests.ui.served import Served, served

DOCS = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
EXAMPLES = re.findall(r"```(python|bash)\n(.*?)```", DOCS, re.DOTALL)
NAMES = {"/compare", "/stream", "/pairs", "/health"}


@pytest.fixture(scope="module")
def house() -> Iterator[Served]:
    with served() as house:
        yield house


@pytest.fixture(scope="module")
def client(house: Served) -> Client:
    return Client(house.url, verbose=False)


def test_compare_gives_both_texts_and_the_metrics(house: Served, client: Client) -> None:
    sent = client.predict("Tell me", max_new_tokens=48, gamma=3, race=True, api_name="/compare")
    answer = Answer.model_validate(sent)
    assert answer.version == 1 and answer.state == "done" and answer.prompt == "Tell me"
    assert answer.baseline.text == answer.speculative.text and house.script.text.startswith(answer.baseline.text)
    assert answer.baseline.tokens == 48 and answer.baseline.stop == "token budget"
    assert answer.speedup > 1 and answer.speculative.draft_acceptance_rate > 0 and answer.sameness == "identical"
    assert house.script.asked.gamma == 3
    record = read(json.dumps(answer.race))
    assert record.metrics(Lane.SPECULATIVE).tokens_per_second == answer.speculative.tokens_per_second


def test_stream_gives_every_step_once_and_in_order(
    house: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.script, "pace", 1.0)  # so that a message holds a step or two, of drafts of all lengths
    messages = list(client.submit("Tell me", max_new_tokens=40, api_name="/stream"))
    assert sum(bool(message["steps"]) for message in messages) > 5
    assert messages[-1]["state"] == "done" and {message["version"] for message in messages} == {1}
    steps = [StepAnswer.model_validate(step) for message in messages for step in message["steps"]]
    assert [(one.lane, one.step) for one in steps] == [(one.lane, one.step) for one in house.script.steps]
    text = "".join("".join(one.texts) for one in steps if one.lane is Lane.SPECULATIVE)
    assert house.script.text.startswith(text) and len(text) > 40


@pytest.mark.parametrize("name", ["compare", "stream"])
def test_who_waits_for_the_device_is_told_the_place_in_the_line(house: Served, client: Client, name: str) -> None:
    ticket = house.desk.line.enter("somebody else")
    job = client.submit("Tell me", max_new_tokens=8, api_name=f"/{name}")
    waits = next(message for message in job if "before" in message)
    assert waits["state"] == "waiting" and waits["before"] == 1
    assert waits["seconds"] is None or waits["seconds"] > 0
    house.desk.line.leave(ticket)
    last = list(job)[-1]
    assert last["state"] == "done" and "before" not in last


def test_pairs_and_health_say_what_there_is(client: Client) -> None:
    pairs, health = client.predict(api_name="/pairs"), client.predict(api_name="/health")
    assert pairs["version"] == health["version"] == 1
    assert "ngram" in pairs["drafters"] and pairs["any_model"] is True and "block" in pairs["rules"]
    assert health["state"] == "ready" and health["races"] is True


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"prompt": ""}, "The prompt is empty. Type a question, or take an example."),
        ({"prompt": None}, "The prompt is empty."),
        ({"prompt": "x", "gamma": 99}, "gamma is 99; it must lie between 0 and 16. Give a number within."),
        ({"prompt": "x", "temperature": "hot"}, "temperature is not a number."),
        ({"prompt": "x", "rule": "luck"}, "Give one of these: shared noise, rejection, block."),
        ({"prompt": "x" * 400_001}, "prompt has 400,001 characters; at most 400,000 are possible. Shorten it."),
        ({"prompt": "x", "drafter": "a/" * 300}, "drafter has 600 characters; at most 300 are possible."),
        ({"prompt": "x", "seed": -1}, "seed is -1; it must lie between 0 and 2147483647."),
        ({"prompt": ["x"]}, "prompt is not a text. Give it in quotes."),
        ({"prompt": "x", "stop_strings": ["END"]}, "stop_strings is not a text."),
        ({"prompt": "x", "drafter": "nobody/x"}, "No model: No model is called nobody/x: give a folder or a hub id."),
        ({"prompt": "word " * 3000}, "tokens and the context holds 2,048"),
    ],
)
def test_what_cannot_be_had_is_an_error_with_a_sentence(client: Client, asked: dict[str, Any], sentence: str) -> None:
    for name in ("/compare", "/stream"):
        with pytest.raises(AppError) as error:
            client.predict(**asked, api_name=name)
        assert sentence in str(error.value.message)


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("call/v2/nothing", {}, 404, "There is no such function: take one of compare, health, pairs, stream."),
        ("call/v2/compare", {}, 400, "compare needs prompt."),
        ("call/v2/compare", {"prompt": "x", "luck": 1}, 400, "compare has no parameter 'luck'. It has: prompt, "),
        ("call/compare", {"data": ["x", 3]}, 400, "16 values are wanted and 2 came."),
        ("call/compare", {"prompt": "x"}, 400, "/gradio_api/call/v2/compare takes them by name."),
        ("call/compare", [], 400, "The request is JSON, but not an object."),
        ("cancel", "x", 400, "The request is JSON, but not an object."),
        ("queue/join", {"fn_index": 9999, "data": [], "session_hash": "x"}, 404, "There is no such function"),
        ("run/compare", {"data": ["x"]}, 400, "16 values are wanted"),
        ("upload", {}, 404, "The page takes no files"),
        ("vibe-edit", {}, 404, "There is nothing here."),
    ],
)
def test_a_malformed_request_gets_a_sentence(house: Served, path: str, body: Any, status: int, sentence: str) -> None:
    answer = httpx.post(f"{house.url}gradio_api/{path}", json=body)
    assert answer.status_code == status and sentence in answer.json()["error"]


def test_an_answer_is_read_once_and_what_is_not_there_gets_a_sentence(house: Served) -> None:
    call = httpx.post(f"{house.url}gradio_api/call/v2/health", json={}).json()["event_id"]
    assert "event: complete" in httpx.get(f"{house.url}gradio_api/call/health/{call}").text
    for path in (f"call/health/{call}", "call/compare/nothing", "call/v2/compare"):
        answer = httpx.get(f"{house.url}gradio_api/{path}")
        assert answer.status_code == 404 and "Post the call again." in answer.json()["error"]


@pytest.mark.parametrize(
    "body", [b"", b"[" * 9999, b"Infinity", b'{"session_hash": 1e999}', b'{"data": [NaN]}', b"\xff"]
)
def test_so_does_what_is_no_json(house: Served, body: bytes) -> None:
    for path in ("cancel", "call/v2/compare", "run/predict", "mcp/"):
        answer = httpx.post(f"{house.url}gradio_api/{path}", content=body)
        assert answer.status_code == 400 and answer.json()["error"].startswith("The request is not JSON")


def test_so_does_half_a_character_in_an_event(house: Served) -> None:
    body = b'{"fn_index": 0, "session_hash": "s", "data": ["\\ud800"]}'
    answer = httpx.post(f"{house.url}gradio_api/run/predict", content=body)
    assert answer.status_code == 400 and answer.json()["error"].startswith("The request holds half a character")


def test_every_response_carries_the_headers_that_bind_a_browser(house: Served) -> None:
    for path in ("", "config", "nothing"):
        headers = httpx.get(house.url + path).headers
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"


def test_gradio_keeps_nothing_of_what_was_asked_and_answered(house: Served, client: Client) -> None:
    client.predict("Tell me a secret", max_new_tokens=8, api_name="/compare")
    sessions = house.page.blocks.app.state_holder.session_data.values()
    assert sessions and not any(session.config_values for session in sessions)
    assert httpx.get(f"{house.url}gradio_api/deep_link", params={"session_hash": "x"}).status_code == 404


def test_only_these_functions_are_public(house: Served) -> None:
    assert house.page.blocks.get_api_info()["named_endpoints"].keys() == NAMES
    private = [fn for fn in house.page.blocks.fns.values() if fn.api_visibility != "private"]
    assert {f"/{fn.api_name}" for fn in private} == NAMES


@pytest.mark.parametrize(("language", "example"), EXAMPLES, ids=[str(i) for i in range(len(EXAMPLES))])
def test_an_example_of_the_docs_works(house: Served, language: str, example: str) -> None:
    assert "http://127.0.0.1:7860/" in example
    if language == "bash" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = [sys.executable, "-c"] if language == "python" else ["bash", "-euo", "pipefail", "-c"]
    example = example.replace("http://127.0.0.1:7860/", house.url)
    done = subprocess.run([*command, example], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if language == "bash":
        assert "event: complete" in done.stdout
    wanted = "'ngram'" if "pairs" in example else '"ready"' if "v2/health" in example else "Here is a function"
    assert wanted in done.stdout
