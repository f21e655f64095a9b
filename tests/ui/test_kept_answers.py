"""What is the same for everybody is made once; nobody is given what was made for another address or behind a door."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from specdemo.ui import kept_answers
from specdemo.ui.kept_answers import KeptAnswers

PAGE = b"a page of some length, " * 40


class Gradio:
    """Answers with the page, the address it was asked for under and the query, and counts."""

    def __init__(self) -> None:
        self.auth: object = None
        self.status = 200
        self.asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        head = [(b"content-type", b"text/html; charset=utf-8"), (b"set-cookie", b"whose=ann"), (b"etag", b"gradio's")]
        await send({"type": "http.response.start", "status": self.status, "headers": head})
        await send({"type": "http.response.body", "body": PAGE, "more_body": True})
        host = dict(scope["headers"]).get(b"host", b"")
        await send({"type": "http.response.body", "body": host + scope["query_string"]})


@pytest.fixture
def app() -> Gradio:
    return Gradio()


@pytest.fixture
def kept(app: Gradio) -> KeptAnswers:
    return KeptAnswers(app)


async def get(kept: KeptAnswers, path: str = "/", query: bytes = b"", **headers: str) -> tuple[int, dict, bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": named, "app": kept._app}
    await kept(scope, None, send)
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(one.get("body", b"") for one in sent[1:])


def run(work: Coroutine) -> Any:
    """In a thread of its own, since tests of the browser leave a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def test_a_hundred_at_once_are_given_what_was_made_once(app: Gradio, kept: KeptAnswers) -> None:
    async def crowd() -> list[Any]:
        return await asyncio.gather(*(get(kept, host="a", accept_encoding="br, gzip") for _ in range(100)))

    answers = run(crowd())
    assert app.asked == 1
    for status, headers, body in answers:
        assert status == 200 and gzip.decompress(body) == PAGE + b"a" and len(body) == int(headers[b"content-length"])
        assert headers[b"content-encoding"] == b"gzip" and headers[b"vary"] == b"accept-encoding"
        assert b"set-cookie" not in headers and headers[b"content-type"].startswith(b"text/html")
    assert run(get(kept, host="a"))[2] == PAGE + b"a", "who unpacks nothing is given it as it is"


def test_a_page_that_a_browser_has_is_not_sent_again(app: Gradio, kept: KeptAnswers) -> None:
    tag = run(get(kept))[1][b"etag"].decode()
    status, headers, body = run(get(kept, if_none_match=tag))
    assert (status, body) == (304, b"") and headers[b"cache-control"] == b"no-cache" and app.asked == 1


def test_each_address_has_its_own_and_settings_in_a_link_change_nothing(app: Gradio, kept: KeptAnswers) -> None:
    assert run(get(kept, host="a"))[2].endswith(b", a")
    assert run(get(kept, host="b"))[2].endswith(b", b")
    run(get(kept, host="a", x_forwarded_host="elsewhere"))
    assert app.asked == 3
    assert run(get(kept, host="a", query=b"gamma=3&page=nowhere"))[2].endswith(b", a") and app.asked == 3


def test_what_is_for_one_visitor_passes(app: Gradio, kept: KeptAnswers) -> None:
    paths = ("/gradio_api/queue/data", "/metrics", "/login", "/gradio_api/info/x")
    for path in (*paths, *paths):
        run(get(kept, path))
    run(get(kept, "/config", b"deep_link=x"))
    app.auth = object()  # the page of a host that asks for a password
    for _ in range(2):
        assert run(get(kept, "/", b"page=nowhere"))[1][b"set-cookie"] == b"whose=ann"
    assert app.asked == 2 * len(paths) + 3 and not kept._kept


def test_a_file_named_by_its_content_is_never_asked_for_again(app: Gradio, kept: KeptAnswers) -> None:
    for path, said in (
        ("/assets/index-DphvyggB.js", b"public, max-age=31536000, immutable"),
        ("/theme.css", b"no-cache"),
    ):
        assert run(get(kept, path))[1][b"cache-control"] == said


def test_what_is_not_there_is_not_kept(app: Gradio, kept: KeptAnswers) -> None:
    app.status = 404
    assert [run(get(kept, "/assets/x"))[0] for _ in range(2)] == [404, 404] and app.asked == 2


def test_no_more_is_kept_than_there_is_room_for(
    app: Gradio, kept: KeptAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST", 200)
    for i in range(20):
        run(get(kept, host=str(i)))
    assert len(kept._kept) < 5
    run(get(kept, host="19"))
    assert app.asked == 20, "what was asked for last"
