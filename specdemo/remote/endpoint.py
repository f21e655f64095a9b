"""How is one OpenAI-compatible server spoken to, and what is said where it does not answer as it should?

Only the server that was named is ever spoken to: no redirect is followed, and no proxy of the environment is taken.
Whatever goes wrong is a RemoteFault: a sentence with the next step.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any

import httpx
import openai
from pydantic import BaseModel

from specdemo.remote import wire
from specdemo.remote.address import address, short
from specdemo.remote.counters import Counters, Unreadable, parse
from specdemo.remote.faults import NotOffered, RemoteFault

Messages = list[dict[str, str]]
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes of an answer that is no stream
GRACE = 1.0  # seconds beyond the timeout, in which the clients find it out by themselves
Response = tuple[int, bytes, httpx.Headers]
LONGEST_WAIT = 24 * 3600  # seconds that a server may ask for in a sentence
TEMPLATE = "the chat template"  # among what was dropped
# All that the clients raise over what a stranger sends; the last ones are of shapes that are none.
WRONG = (openai.OpenAIError, httpx.HTTPError, ValueError, AttributeError, TypeError, RecursionError)


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
        self._key = key
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
            raise RemoteFault(self._hidden(self._status(status, body, wire.HEALTH, headers)))

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
                raise self._garbage(ValueError(f"{len(found):,} tokens of {len(text):,} characters"))
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
                named = [] if arrived else _named(extra, error)
                unknown = next((name for name in named if name in wire.DROPPABLE), None)
                if unknown is not None:
                    del extra[unknown]
                    sent.dropped.append(unknown)
                elif again and not arrived and _broken(error):
                    again = False
                else:
                    raise (self._refused(error, named[0]) if named else self._fault(error)) from None

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
            raise self._garbage(error) from None

    def _answer(self, method: str, path: str, message: dict[str, Any] | None = None) -> bytes:
        status, body, headers = self._response(method, path, message)
        if status == 200:
            return body
        kind = NotOffered if status in (400, 404, 405, 422, 501) else RemoteFault
        raise kind(self._hidden(self._status(status, body, path, headers)))

    def _hidden(self, sentence: str) -> str:
        """Without the key, which a client or a server may quote: sentences reach visitors."""
        return sentence.replace(self._key, "***") if self._key else sentence

    def silent(self) -> RemoteFault:
        """What is said of a server that sends nothing, or nothing that counts."""
        return RemoteFault(
            f"The server at {self.name} was silent for {self.timeout:g} s: see whether it is busy, or give it "
            "longer with --timeout."
        )

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
            raise self.silent() from None
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
                            raise RemoteFault(f"The server at {self.name} answers {path} with more than 16 MiB.")
                return response.status_code, body, response.headers
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if not (again and _broken(error)):
                    raise self._fault(error) from None
                again = False

    def _fault(self, error: Exception) -> RemoteFault:
        """What an exception of the clients means."""
        if isinstance(error, openai.APIStatusError):
            answer = error.response
            return RemoteFault(
                self._hidden(self._status(error.status_code, answer.content, "/v1/completions", answer.headers))
            )
        if isinstance(error, openai.APITimeoutError | httpx.TimeoutException):
            return self.silent()
        if isinstance(error, openai.APIConnectionError | httpx.HTTPError | httpx.InvalidURL):
            why = self._hidden(short(str(error.__cause__ or error))) or type(error).__name__
            return RemoteFault(
                f"The connection to {self.name} failed ({why}): see whether the server runs and is still reachable."
            )
        if isinstance(error, openai.APIError):
            what = self._hidden(short(error.message))
            return RemoteFault(
                f"The server at {self.name} reports an error ({what}): see what it logged, and run again."
            )
        return self._garbage(error)

    def _garbage(self, error: Exception) -> RemoteFault:
        what = self._hidden(short(str(error)))
        return RemoteFault(
            f"The server at {self.name} sent what no OpenAI-compatible server sends ({what}): see whether that is the "
            "right port."
        )

    def _refused(self, error: openai.APIError, named: str) -> RemoteFault:
        """A refusal that speaks of a setting which changes what is drawn."""
        what = self._hidden(_said(_text(error)))
        return RemoteFault(f"The server at {self.name} does not take this {short(named)} ({what}): leave it off.")

    def _status(self, status: int, body: bytes, path: str, headers: Mapping[str, str]) -> str:
        """An answer that is no 200, in a sentence."""
        where, what, wait = f"The server at {self.name}", _said(body.decode(errors="replace")), _wait(headers)
        match status:
            case 401 | 403:
                return f"{where} wants another key: put it in an environment variable and name that with --api-key-env."
            case 404:
                return f"{where} does not know {path} or this model ({what}): see what it serves at /v1/models."
            case 429 | 503 if wait is not None:
                return f"{where} takes no more requests for now ({what}): wait {wait:,} s, and run again."
            case 429:
                return f"{where} takes no more requests for now ({what}): wait a little, and run again."
            case _ if 300 <= status < 400:
                return f"{where} sends on to another address, which is not followed: name that address itself."
            case _ if status >= 500:
                return f"{where} failed with status {status} ({what}): see what it logged, and run again."
        return f"{where} refuses the request with status {status}: {what}."


def _broken(error: Exception) -> bool:
    """Whether a connection broke, or could not be made; silence is none of that."""
    silent = isinstance(error, openai.APITimeoutError | httpx.TimeoutException)
    return isinstance(error, openai.APIConnectionError | httpx.TransportError) and not silent


def _named(settings: Iterable[str], error: Exception) -> list[str]:
    """The settings that a refusal speaks of: the one that it calls its parameter, else all in its text."""
    text = _text(error)
    if text is None:
        return []
    own = [name for name in settings if name == error.param]
    return own or [name for name in settings if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def _text(error: Exception) -> str | None:
    """Of a refusal, which may come inside a stream; None for what is none."""
    if isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
        return error.response.text
    other = isinstance(error, openai.APIStatusError | openai.APIConnectionError)
    return error.message if isinstance(error, openai.APIError) and not other else None


def _wait(headers: Mapping[str, str]) -> int | None:
    """Seconds until Retry-After, a number or a date; None where it is neither, or no time that a person waits."""
    said = headers.get("Retry-After", "").strip()
    try:
        until = float(said) if said.isdecimal() else (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds()
        seconds = math.ceil(until)
    except (ValueError, TypeError, IndexError, OverflowError):  # all that the parser of dates raises on other text
        return None
    return seconds if 0 < seconds <= LONGEST_WAIT else None


def _said(text: str) -> str:
    """The message in an error's body, short."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        text = error["message"] if isinstance(error, dict) else str(error)
    except (ValueError, KeyError, AttributeError, RecursionError):
        pass
    return short(str(text)) or "no reason given"
