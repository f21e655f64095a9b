"""How is one OpenAI-compatible server spoken to, and what is said where it does not answer as it should?

Only the server that was named is ever spoken to: no redirect is followed, and no proxy of the environment is taken.
Whatever goes wrong is a RemoteFault: a sentence with the next step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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


def bare(messages: Messages) -> str:
    """What was said, without a chat template."""
    return "\n\n".join(one["content"] for one in messages)


class Endpoint:
    """One server. timeout: seconds that it may be silent. dropped: what was asked for and it does not know."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0) -> None:
        self.url = address(url)
        self.name = self.url.split("://")[1]
        self.timeout = timeout
        self.dropped: list[str] = []
        headers = {"Authorization": f"Bearer {key}"} if key else {}
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

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

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
            return self._ask(wire.TOKENIZE, wire.Tokenized, body)
        except NotOffered:
            self._drop("the chat template")
        try:
            return self._ask(wire.TOKENIZE, wire.Tokenized, {"model": model, "prompt": bare(messages)})
        except NotOffered:
            return None

    def tokens(self, model: str, text: str) -> list[int]:
        """The ids of a text that the server wrote, where it gave none with it."""
        asked = {"model": model, "prompt": text, "add_special_tokens": False}
        try:
            return self._ask(wire.TOKENIZE, wire.Tokenized, asked).tokens
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
        self, model: str, prompt: str | Sequence[int], max_tokens: int, settings: dict[str, Any]
    ) -> Iterator[wire.Chunk]:
        """One completion's chunks as they arrive; raises RemoteFault, also in the middle."""
        optional = {name: value for name, value in wire.OPTIONAL.items() if name not in self.dropped}
        while True:
            try:
                messages = self._openai.completions.create(
                    model=model,
                    prompt=prompt if isinstance(prompt, str) else list(prompt),
                    max_tokens=max_tokens,
                    stream=True,
                    extra_body=settings | optional,
                )
                break
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                unknown = next((name for name in optional if name in error.response.text), None)
                if unknown is None:
                    raise self._refused(error.status_code, error.response.text, settings) from None
                del optional[unknown]
                self._drop(unknown)
            except (openai.OpenAIError, httpx.HTTPError, ValueError, RecursionError) as error:
                raise self._fault(error) from None
        with messages:
            yield from self._chunks(messages, settings)

    def _chunks(self, messages: openai.Stream, settings: dict[str, Any]) -> Iterator[wire.Chunk]:
        ended = False
        try:
            for message in messages:
                chunk = wire.read(
                    wire.Chunk, message.to_dict(warnings=False) if isinstance(message, BaseModel) else message
                )
                ended = ended or any(choice.finish_reason for choice in chunk.choices)
                yield chunk
        except (openai.OpenAIError, httpx.HTTPError, ValueError, AttributeError, TypeError, RecursionError) as error:
            refused = not ended and isinstance(error, openai.APIError) and _named(settings, error.message)
            raise (self._refused(400, error.message, settings) if refused else self._fault(error)) from None
        if not ended:
            raise RemoteFault(
                f"The server at {self.name} ended its answer in the middle: see what it logged, and run again."
            )

    def _drop(self, what: str) -> None:
        if what not in self.dropped:
            self.dropped.append(what)

    def _ask(self, path: str, shape: type[wire.Shape], message: dict[str, Any] | None = None) -> wire.Shape:
        answer = self._answer("GET" if message is None else "POST", path, message)
        try:
            return wire.read(shape, json.loads(answer))
        except (ValueError, RecursionError) as error:  # the latter of brackets in brackets
            raise self._garbage(error) from None

    def _answer(self, method: str, path: str, message: dict[str, Any] | None = None) -> bytes:
        body = b""
        try:
            with self._http.stream(method, self.url + path, json=message) as response:
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > LARGEST_ANSWER:
                        raise RemoteFault(f"The server at {self.name} answers {path} with more than 16 MiB.")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._fault(error) from None
        if response.status_code in (400, 404, 405, 422, 501):
            raise NotOffered(self._status(response.status_code, body.decode(errors="replace"), path))
        if response.status_code != 200:
            raise RemoteFault(self._status(response.status_code, body.decode(errors="replace"), path))
        return body

    def _fault(self, error: Exception) -> RemoteFault:
        """What an exception of the clients means."""
        if isinstance(error, openai.APIStatusError):
            return RemoteFault(self._status(error.status_code, error.response.text, "/v1/completions"))
        if isinstance(error, openai.APITimeoutError | httpx.TimeoutException):
            return RemoteFault(
                f"The server at {self.name} was silent for {self.timeout:g} s: see whether it is busy, or give it "
                "longer with --timeout."
            )
        if isinstance(error, openai.APIConnectionError | httpx.HTTPError | httpx.InvalidURL):
            why = short(str(error.__cause__ or error)) or type(error).__name__
            return RemoteFault(
                f"The connection to {self.name} failed ({why}): see whether the server runs and is still reachable."
            )
        if isinstance(error, openai.APIError):
            what = short(error.message)
            return RemoteFault(
                f"The server at {self.name} reports an error ({what}): see what it logged, and run again."
            )
        return self._garbage(error)

    def _garbage(self, error: Exception) -> RemoteFault:
        return RemoteFault(
            f"The server at {self.name} sent what no OpenAI-compatible server sends ({short(str(error))}): see "
            "whether that is the right port."
        )

    def _refused(self, status: int, text: str, settings: dict[str, Any]) -> RemoteFault:
        """A 400: of a setting that the person chose, where the answer names one."""
        named = _named(settings, text)
        if named is None:
            return RemoteFault(self._status(status, text, "/v1/completions"))
        return RemoteFault(f"The server at {self.name} does not take this {named} ({_said(text)}): leave it off.")

    def _status(self, status: int, text: str, path: str) -> str:
        """An answer that is no 200, in a sentence."""
        where = f"The server at {self.name}"
        match status:
            case 401 | 403:
                return f"{where} wants another key: put it in an environment variable and name that with --api-key-env."
            case 404:
                return f"{where} does not know {path} or this model ({_said(text)}): see what it serves at /v1/models."
            case 429:
                return f"{where} takes no more requests for now ({_said(text)}): wait a little, and run again."
            case _ if 300 <= status < 400:
                return f"{where} sends on to another address, which is not followed: name that address itself."
            case _ if status >= 500:
                return f"{where} failed with status {status} ({_said(text)}): see what it logged, and run again."
        return f"{where} refuses the request with status {status}: {_said(text)}."


def _named(settings: dict[str, Any], text: str) -> str | None:
    """The setting that an answer speaks of."""
    return next((name for name in settings if name in text), None)


def _said(text: str) -> str:
    """The message in an error's body, short."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        text = error["message"] if isinstance(error, dict) else str(error)
    except (ValueError, KeyError, AttributeError, RecursionError):
        pass
    return short(str(text)) or "no reason given"
