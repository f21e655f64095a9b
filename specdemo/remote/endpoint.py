"""How is one OpenAI-compatible server spoken to?

Only the server that was named is ever spoken to: no redirect is followed, and no proxy of the environment is taken.
Whatever goes wrong is a RemoteFault: a sentence with the next step (refusals.py).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import httpx
import openai
from pydantic import BaseModel

from specdemo.remote import wire
from specdemo.remote.address import address
from specdemo.remote.counters import Counters, Unreadable, parse
from specdemo.remote.faults import NotOffered, RemoteFault
from specdemo.remote.refusals import WRONG, Refusals, broke, named_in

Messages = list[dict[str, str]]
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes of an answer that is no stream
GRACE = 1.0  # seconds beyond the timeout, in which the clients find it out by themselves
Response = tuple[int, bytes, httpx.Headers]


@dataclass(slots=True)
class Sent:
    """One request. at: when it was sent as the server took it, by time.perf_counter. dropped: what it does not know."""

    at: float = 0.0
    dropped: list[str] = field(default_factory=list)


def bare(messages: Messages) -> str:
    """What was said, without a chat template."""
    return "\n\n".join(one["content"] for one in messages)


class Endpoint:
    """One server. timeout: seconds that it may be silent. templated: its chat template read the last prompt."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0) -> None:
        self.url = address(url)
        self.name = self.url.split("://")[1]
        self.timeout = timeout
        self.templated = True
        self.refusals = Refusals(self.name, timeout, key)
        # A packed answer is small until it is read: none is asked for.
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        tls = self.url.startswith("https:")  # certificates take time to read
        self._http = httpx.Client(
            verify=tls,
            follow_redirects=False,
            trust_env=False,
            timeout=timeout,
            limits=httpx.Limits(),  # none: as many requests at once as are asked for
            headers=headers,
        )
        self._openai = openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=key or "none", max_retries=0, timeout=timeout, http_client=self._http
        )
        self._openai.organization = self._openai.project = None  # of the environment, for another server
        _ = self._openai.completions  # imported with its first use, which would be on the first lane's clock

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def refuse_dead(self) -> None:
        """Raises RemoteFault where it is not there, or says that its engine died. Not every server has such a path."""
        status, body, headers = self._response("GET", wire.HEALTH)
        if status >= 500:
            raise RemoteFault(self.refusals.status(status, body, wire.HEALTH, headers))

    def models(self) -> list[wire.Model]:
        """What is served, at least one."""
        models = self._ask(wire.MODELS, wire.Models).data
        if not models:
            raise RemoteFault(f"The server at {self.name} serves no model: start it with one.")
        return models

    def counters(self) -> Counters | None:
        """Its counters at this moment; None where it shows none that can be read: a run goes on without."""
        try:
            return parse(self._answer("GET", wire.METRICS).decode())
        except (RemoteFault, Unreadable, UnicodeDecodeError):
            return None

    def encode(self, model: str, messages: Messages, thinking: bool | None = None) -> wire.Tokenized | None:
        """The ids of what was said, by the server's own chat template, else of the bare text; None: it cannot say.

        thinking: as the template has it where it is None.
        """
        body: dict[str, Any] = {"model": model, "messages": messages}
        if thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": thinking}
        try:
            found, self.templated = self._ask(wire.TOKENIZE, wire.Tokenized, body), True
            return found
        except NotOffered:
            self.templated = False
        try:
            return self._ask(wire.TOKENIZE, wire.Tokenized, {"model": model, "prompt": bare(messages)})
        except NotOffered:
            return None

    def tokens(self, model: str, text: str) -> list[int]:
        """The ids of a text that the server wrote, where it gave none with it."""
        asked = {"model": model, "prompt": text, "add_special_tokens": False}
        try:
            found = self._ask(wire.TOKENIZE, wire.Tokenized, asked).tokens
            if not 0 < len(found) <= len(text.encode()) + 1:  # a token spells a byte; some tokenizers put one before
                raise self.refusals.garbage(ValueError(f"{len(found):,} tokens of {len(text):,} characters"))
            return found
        except NotOffered:
            raise RemoteFault(
                f"The server at {self.name} gives neither token ids nor a tokenizer, so that nothing can be counted: "
                "take a vLLM that knows return_token_ids."
            ) from None

    def spelling(self, model: str, token_id: int) -> str | None:
        """One token by itself; None where the server cannot say."""
        try:
            return self._ask(wire.DETOKENIZE, wire.Detokenized, {"model": model, "tokens": [token_id]}).prompt
        except RemoteFault:  # the texts are there; only where one token of them ends is not
            return None

    def stream(
        self, model: str, prompt: str | Sequence[int], max_tokens: int, settings: dict[str, Any], sent: Sent
    ) -> Iterator[wire.Chunk]:
        """One completion's chunks as they arrive; raises RemoteFault, also in the middle.

        Before anything came it is sent again: without what the server does not know and the distribution does not
        need, and once where the connection broke.
        """
        body = {"model": model, "prompt": prompt if isinstance(prompt, str) else list(prompt), "max_tokens": max_tokens}
        extra, again = settings | wire.OPTIONAL, True
        while True:
            arrived, sent.at = False, time.perf_counter()
            try:
                for chunk in self._chunks(body, extra):
                    arrived = True
                    yield chunk
                return
            except WRONG as error:
                named = [] if arrived else named_in(error, extra)
                unknown = next((name for name in named if name in wire.DROPPABLE), None)
                if unknown is not None:
                    del extra[unknown]
                    sent.dropped.append(unknown)
                elif again and not arrived and broke(error):
                    again = False
                else:
                    raise (self.refusals.refused(error, named[0]) if named else self.refusals.fault(error)) from None

    def _chunks(self, body: dict[str, Any], extra: dict[str, Any]) -> Iterator[wire.Chunk]:
        ended = False
        with self._openai.completions.create(**body, stream=True, extra_body=extra) as messages:
            for message in messages:
                chunk = wire.read(
                    wire.Chunk, message.to_dict(warnings=False) if isinstance(message, BaseModel) else message
                )
                ended = ended or any(choice.finish_reason for choice in chunk.choices)
                yield chunk
        if not ended:
            raise RemoteFault(
                f"The server at {self.name} ended its answer in the middle: see what it logged, and run again."
            )

    def _ask(self, path: str, shape: type[wire.Shape], message: dict[str, Any] | None = None) -> wire.Shape:
        answer = self._answer("GET" if message is None else "POST", path, message)
        try:
            return wire.read(shape, json.loads(answer))
        except (ValueError, RecursionError) as error:  # the latter of brackets in brackets
            raise self.refusals.garbage(error) from None

    def _answer(self, method: str, path: str, message: dict[str, Any] | None = None) -> bytes:
        status, body, headers = self._response(method, path, message)
        if status == 200:
            return body
        kind = NotOffered if status in (400, 404, 405, 422, 501) else RemoteFault
        raise kind(self.refusals.status(status, body, path, headers))

    def _response(self, method: str, path: str, message: dict[str, Any] | None = None) -> Response:
        """Status, body and headers, in the time that the server has, however it trickles."""
        answered: SimpleQueue[Response | BaseException] = SimpleQueue()

        def ask() -> None:
            try:
                answered.put(self._asked(method, path, message))
            except BaseException as error:  # raised where it was asked for
                answered.put(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            answer = answered.get(timeout=self.timeout + GRACE)
        except Empty:
            raise self.refusals.silent() from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _asked(self, method: str, path: str, message: dict[str, Any] | None) -> Response:
        """Asked once more where the connection breaks, as a kept one may have been closed."""
        again = True
        while True:
            body = b""
            try:
                with self._http.stream(method, self.url + path, json=message) as response:
                    for piece in response.iter_bytes():
                        body += piece
                        if len(body) > LARGEST_ANSWER:
                            raise RemoteFault(
                                f"The server at {self.name} answers {path} with more than 16 MiB: see whether that is "
                                "the right port."
                            )
                return response.status_code, body, response.headers
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if not (again and broke(error)):
                    raise self.refusals.fault(error) from None
                again = False
