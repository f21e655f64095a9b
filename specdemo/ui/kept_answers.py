"""Which answers are the same for everybody? They are made and packed once, and given from memory from then on.

Gradio builds half a megabyte of page for every visitor, and packs its scripts again for each. The page of a host that
asks for a password is not kept, since who has not come in gets another.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from specdemo.ui.doors import API, Message, Receive, Send

PAGES = ("/", "/config", f"{API}info")  # they hold the address that the page was asked for under
FILES = ("/assets/", "/static/", "/theme.css", "/favicon.ico")
NAMED_BY_CONTENT = re.compile(r"/assets/.+-[\w-]{8,}\.\w+")
WHERE = (b"host", b"x-forwarded-host", b"x-forwarded-proto", b"x-gradio-server")  # what Gradio takes that address from
MOST = 32 * 1024 * 1024  # bytes kept; the files that this page asks for are a tenth of it
PACKED = re.compile(rb"text/|[^;]*(javascript|json|xml)")
PASSED = {b"content-type", b"last-modified"}  # of the headers; the others are of one answer
CONDITIONS = {b"if-none-match", b"if-modified-since", b"if-range", b"range"}

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer. body: packed by gzip, where `packed`."""

    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    packed: bool
    tag: bytes


class KeptAnswers:
    """ASGI middleware around Gradio's app; everything that is not for everybody passes."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._making = asyncio.Lock()  # of a hundred who open the page at once, one makes it

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer from memory, or let pass."""
        if scope["type"] == "http" and scope["path"] == "/":  # settings in a link change nothing of the page itself
            scope = {**scope, "query_string": b""}
        key = _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        if key not in self._kept:
            async with self._making:
                refused = None if key in self._kept else await self._make(key, scope, receive)
            if refused is not None:
                for message in refused:
                    await send(message)
                return
        self._kept.move_to_end(key)
        await _give(self._kept[key], scope, send)

    async def _make(self, key: Key, scope: Message, receive: Receive) -> list[Message] | None:
        """Let the app answer, and keep that; what it said, where it is nothing to keep."""
        said: list[Message] = []
        bare = [pair for pair in scope["headers"] if pair[0] not in CONDITIONS]

        async def hear(message: Message) -> None:
            said.append(message)

        await self._app({**scope, "headers": bare, "query_string": b""}, receive, hear)
        if said[0]["status"] != 200:
            return said
        body = b"".join(message.get("body", b"") for message in said[1:])
        headers = tuple(pair for pair in said[0]["headers"] if pair[0].lower() in PASSED)
        if NAMED_BY_CONTENT.fullmatch(scope["path"]):
            headers += ((b"cache-control", b"public, max-age=31536000, immutable"),)
        else:
            headers += ((b"cache-control", b"no-cache"),)  # ask whether it is still the same
        tag = f'W/"{hashlib.sha256(body).hexdigest()[:20]}"'.encode()
        packed = any(name.lower() == b"content-type" and PACKED.match(value) for name, value in headers)
        if packed:
            body = await asyncio.to_thread(gzip.compress, body, 6, mtime=0)
        self._kept[key] = Kept(headers, body, packed, tag)
        while sum(len(one.body) for one in self._kept.values()) > MOST and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return None


def _key(scope: Message) -> Key | None:
    """What the answer depends on; None where that is more than can be said here."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    if scope["path"].startswith(FILES):
        return (scope["path"],)
    if scope["path"] not in PAGES or scope["app"].auth is not None:
        return None
    if scope["query_string"]:
        return None
    named = tuple(pair for pair in scope["headers"] if pair[0] in WHERE)
    return (scope["path"], scope.get("scheme"), scope.get("root_path"), scope.get("server"), named)


async def _give(kept: Kept, scope: Message, send: Send) -> None:
    asked = dict(scope["headers"])
    head = [*kept.headers, (b"etag", kept.tag)]
    body, status = kept.body, 200
    if kept.packed:
        head.append((b"vary", b"accept-encoding"))
    if asked.get(b"if-none-match") == kept.tag:
        body, status = b"", 304
    elif kept.packed and b"gzip" in asked.get(b"accept-encoding", b""):
        head.append((b"content-encoding", b"gzip"))
    elif kept.packed:
        body = gzip.decompress(body)
    if status == 200:
        head.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
