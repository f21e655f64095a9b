"""Which addresses may be spoken to, and what is said of a server that does not answer as it should."""

from __future__ import annotations

import json

import pytest

from specdemo.remote.endpoint import Endpoint, Sent, address
from specdemo.remote.faults import RemoteFault
from tests.remote.server import Script, serving


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000"),
        (" https://llm.example/v1/ ", "https://llm.example"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_is_a_scheme_a_host_and_a_port(url: str, expected: str) -> None:
    assert address(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "file:///etc/passwd",
        "ftp://host/",
        "http://",
        "http://host:99999",
        "http://[::1",
        "http://user:word@host:8000",
        "http://host:8000/v1?x=1",
        "http://host:8000/admin",
        "gopher://host:1",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(RemoteFault):
        address(url)


def test_the_key_goes_to_every_path_of_the_server() -> None:
    with serving(Script()) as script:
        endpoint = Endpoint(script.url, key="secret", timeout=5)
        endpoint.models()
        endpoint.counters()
        list(endpoint.stream("tiny", (1, 5, 6), 8, {}, Sent()))
        assert script.keys == ["Bearer secret"] * 3
        script.models = (401, "")
        with pytest.raises(RemoteFault, match="does not take the key"):
            endpoint.models()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, '{"data": []}'), "serves no model"),
        ((200, "<html>"), "right port"),
        ((200, '{"data": [{"name": 3}]}'), "right port"),
        ((401, ""), "wants a key: .* --api-key-env"),
        ((404, "<!DOCTYPE HTML>"), "has no /v1/models: .* has that port"),
        ((502, "<html>"), "no reason given"),
        ((302, ""), "not followed"),
        ((500, "no"), "status 500"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(answer: tuple[int, str], expected: str) -> None:
    script = Script()
    script.models, script.headers = answer, {"Location": "http://192.0.2.1/"}
    with serving(script):
        endpoint = Endpoint(script.url, timeout=5)
        with pytest.raises(RemoteFault, match=expected):
            endpoint.models()


def test_a_server_that_is_not_there_is_said() -> None:
    with serving(Script()) as script:
        url = script.url
    with pytest.raises(RemoteFault, match="see whether the server runs"):
        Endpoint(url, timeout=5).models()


@pytest.mark.parametrize("status", [200, 302, 403, 404, 500, 503])
def test_only_a_server_that_says_so_is_dead(status: int) -> None:
    script = Script()
    script.health = (status, "")
    with serving(script):
        endpoint = Endpoint(script.url, timeout=5)
        if status < 500:
            endpoint.refuse_dead()
        else:
            with pytest.raises(RemoteFault, match=f"status {status}.*see what it logged"):
                endpoint.refuse_dead()


def test_a_connection_that_breaks_before_an_answer_is_made_once_more() -> None:
    with serving(Script()) as script:
        endpoint = Endpoint(script.url, timeout=5)
        script.hangs_up = {"/tokenize": 1, "/v1/models": 2}
        assert endpoint.encode("tiny", [{"role": "user", "content": "Hi"}]).tokens == [1, 5, 6]
        with pytest.raises(RemoteFault, match="see whether the server runs"):
            endpoint.models()
        assert [path for path, _ in script.asked] == ["/tokenize"] * 2 + ["/v1/models"] * 2


def test_a_server_that_was_given_a_chat_template_is_asked_by_it_again() -> None:
    with serving(Script()) as script:
        endpoint = Endpoint(script.url, timeout=5)
        for script.template in (False, True):
            endpoint.encode("tiny", [{"role": "user", "content": "Hi"}])
            assert endpoint.templated is script.template


def test_a_strangers_words_are_short_and_have_no_control_characters() -> None:
    script = Script()
    script.models = (500, '{"error": {"message": "\\u001b[2Jred' + "x" * 9000 + '"}}')
    with serving(script), pytest.raises(RemoteFault) as caught:
        Endpoint(script.url, timeout=5).models()
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 300


def test_no_sentence_holds_the_key() -> None:
    script = Script()
    script.models = (500, json.dumps({"error": {"message": "no such key: sk-secret-1"}}))
    with serving(script) as server, pytest.raises(RemoteFault) as fault:
        Endpoint(server.url, "sk-secret-1", timeout=5).models()
    assert "sk-secret" not in str(fault.value) and "***" in str(fault.value)


@pytest.mark.parametrize("url", ["http://a..b:1", f"http://{'x' * 70}.de", "http://999.999.999.999:1", "http://h:0"])
def test_what_no_lookup_takes_is_no_address(url: str) -> None:
    with pytest.raises(RemoteFault, match="no address of a server"):
        address(url)
