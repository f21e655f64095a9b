"""What does the server let in, and what does it send along? Requests that Gradio would stumble over get a sentence.

Every response carries headers that keep a browser from doing more with the page than showing it. No file is ever
taken: the page has nothing to upload.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from gradio.utils import get_function_params, oauth_token_requirement

from specdemo.ui.gone import tell

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

API = "/gradio_api/"
LARGEST = 32 * 1024 * 1024  # bytes of a request: the largest file that the page replays, escaped, is half of it
POSTED = {"run", "call", "queue", "cancel", "reset", "mcp"}  # what may be posted below API
RUNS = {"race", "run", "compare", "stream"}  # functions that wait for the device: of the page, the Lab and the API
APART, LONGEST = 0.015, 2.0  # seconds between two of them, and that one waits at most to be let in
# What this page never asks for; deep_link would write what a visitor typed to the disk.
CLOSED = ("vibe", "dev/", "profiling", "run-history", "proxy=", "stream/", "deep_link")

FRAMED_BY = "'self' https://huggingface.co" if os.environ.get("SPACE_ID") else "'self'"
HEADERS = {
    # Gradio's own page has scripts in its markup and makes functions of templates.
    "content-security-policy": "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; "
    f"base-uri 'self'; form-action 'self'; frame-ancestors {FRAMED_BY}",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


class Turnstile:
    """Turns so many seconds apart; who finds it free does not wait, and nobody waits longer than `longest`.

    A hundred who come in one instant are worked on all at once else, and whoever opens the page stands behind them. A
    flood is not held back here: the line turns it away.
    """

    def __init__(self, apart: float, longest: float) -> None:
        self._apart, self._longest, self._free = apart, longest, 0.0

    async def enter(self) -> bool:
        """Wait for one's turn; whether there was anything to wait for."""
        now = asyncio.get_running_loop().time()
        turn = min(max(now, self._free), now + self._longest)
        self._free = turn + self._apart
        if turn > now:
            await asyncio.sleep(turn - now)
        return turn > now


class _Refused(Exception):
    """A request that is answered here: status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Doors:
    """ASGI middleware around Gradio's app."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._turnstile = Turnstile(APART, LONGEST)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, or let pass with the headers added."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        below = scope["path"].partition(API)[2]
        run = below.startswith("run/")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = [pair for pair in message.get("headers", []) if pair[0].lower().decode() not in HEADERS]
                message["headers"] = [*known, *((name.encode(), value.encode()) for name, value in HEADERS.items())]
                if run and message["status"] == 500:  # Gradio's answer to whatever a page's event was refused for
                    message["status"] = 400
            await send(message)

        try:
            if below.startswith(CLOSED):
                raise _Refused(404, "There is nothing here.")
            if below.startswith("mcp") and scope["app"].auth is not None:  # Gradio would let them in to look around
                raise _Refused(401, "This page asks for a password, which no MCP caller can give: take gradio_client.")
            if _asks_for_none(scope, below):
                raise _Refused(
                    404, "No answer waits under this id: it has been read, or never was. Post the call again."
                )
            if scope["method"] == "POST" and below:
                body = await _read(receive)
                called = _called(scope, below, body)
                if called in RUNS and await self._turnstile.enter() and await _has_left(receive):
                    return
                receive = _again(body, receive)
        except _Refused as refused:
            await _answer(with_headers, refused.status, refused.sentence)
            return
        await self._app(scope, receive, with_headers)


def _asks_for_none(scope: Message, below: str) -> bool:
    """Whether a call's answer is asked for that is not to be had: Gradio would say so in the middle of a stream.

    Under a password, who has not given it must not learn even that.
    """
    if scope["method"] != "GET" or not below.startswith("call/") or scope["app"].auth is not None:
        return False
    queue, event = scope["app"].get_blocks()._queue, below.strip("/").rpartition("/")[2]
    awaited = any(event in ids for ids in queue.pending_event_ids_session.values())
    return not awaited and event not in queue.event_ids_to_events


async def _has_left(receive: Receive) -> bool:
    """Whether who has posted what was read is gone: nobody would ask for the answer, nor stop the run."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):  # what has come already is had without a wait
            return (await receive())["type"] == "http.disconnect"
    return False


def _called(scope: Message, below: str, body: bytes | None) -> str | None:
    """The function of ours that a posted request calls, if it does; raises _Refused for what nothing of ours sends."""
    kind, _, name = below.strip("/").partition("/")
    if body is None:
        raise _Refused(413, f"A request may have {LARGEST >> 20} MiB.")
    if kind not in POSTED:
        raise _Refused(
            404, "Nothing can be posted here. The page takes no files; its functions are at /gradio_api/call."
        )
    try:
        asked = json.loads(body, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        raise _Refused(400, "The request is not JSON, or holds a number that is none.") from None
    if kind == "mcp":  # which answers to whatever else it may be
        return None
    if not isinstance(asked, dict):
        raise _Refused(400, "The request is JSON, but not an object.")
    if kind == "cancel":  # Gradio would wait for the next value first
        tell(str(asked.get("event_id")))
    if kind in ("cancel", "reset"):
        return None
    fn = _function(scope["app"].get_blocks().fns, kind, name, asked)
    if kind == "run":
        _check_event(asked)
    _check_values(fn, kind, name, asked)
    return fn.name


def _check_event(asked: dict[str, Any]) -> None:
    """Gradio's refusal of a value repeats it."""
    try:
        json.dumps(asked, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Refused(400, "The request holds half a character, which no answer could repeat.") from None


def _finite(number: str) -> float:
    """No answer that repeats it could be written else."""
    if not math.isfinite(float(number)):
        raise ValueError
    return float(number)


def _function(fns: dict[int, Any], kind: str, name: str, asked: dict[str, Any]) -> Any:
    public = {fn.api_name: fn for fn in fns.values() if fn.api_visibility == "public"}
    if kind == "call":
        fn = public.get(name.removeprefix("v2/"))
    elif isinstance(asked.get("fn_index"), int):
        fn = fns.get(asked["fn_index"])
    else:
        fn = public.get(name)
    if fn is None:
        raise _Refused(404, f"There is no such function: take one of {', '.join(sorted(public))}.")
    return fn


def _check_values(fn: Any, kind: str, name: str, asked: dict[str, Any]) -> None:
    if kind == "call" and name.startswith("v2/"):
        names, signs_in = _parameters(fn.fn)
        unknown = asked.keys() - names.keys() - ({"oauth_token"} if signs_in else set())
        if unknown:
            raise _Refused(
                400, f"{fn.api_name} has no parameter {ascii(min(unknown))[:40]}. It has: {', '.join(names)}."
            )
        missing = [name for name, has_default in names.items() if not has_default and name not in asked]
        if missing:
            raise _Refused(400, f"{fn.api_name} needs {missing[0]}.")
        return
    data, most = asked.get("data"), len(fn.inputs)
    if kind == "call" and not isinstance(data, list):
        raise _Refused(400, f"data is no list of values. /gradio_api/call/v2/{fn.api_name} takes them by name.")
    if isinstance(data, list) and len(data) != most and not fn.cancels:
        raise _Refused(
            400,
            f"{most} values are wanted and {len(data)} came. /gradio_api/call/v2 takes them by name, and any "
            "of them but the first may be left out there.",
        )


@lru_cache(maxsize=8)
def _parameters(function: Callable[..., Any]) -> tuple[dict[str, bool], bool]:
    """Which may be given, and whether each may be left out; whether a token for the sign-in may."""
    names = {name: has_default for name, has_default, *_ in get_function_params(function)}
    return names, bool(oauth_token_requirement(function))


async def _read(receive: Receive) -> bytes | None:
    """A request's body; None where it is too large, or nobody is there any more."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read, to be read again; then whatever comes, which is the end of the connection."""
    read = False

    async def receive_again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
