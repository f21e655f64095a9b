"""What is said of a server that does not answer as it should, be it that a client raises or that a status is no 200?

Each ends with the next step. A server's own words in it are quoted, and may be anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import openai

from specdemo.remote import wire
from specdemo.remote.address import short
from specdemo.remote.faults import RemoteFault

LONGEST_WAIT = 24 * 3600  # seconds that a server may ask for in a sentence
# All that the clients raise over what a stranger sends; the last ones are of shapes that are none.
WRONG = (openai.OpenAIError, httpx.HTTPError, ValueError, AttributeError, TypeError, RecursionError)


class Refusals:
    """Of one server. name: as it is called in a sentence; timeout: seconds that it may be silent."""

    def __init__(self, name: str, timeout: float, key: str | None) -> None:
        self._name, self._timeout, self._key = name, timeout, key

    def silent(self) -> RemoteFault:
        """What is said of a server that sends nothing, or nothing that counts."""
        return RemoteFault(
            f"The server at {self._name} was silent for {self._timeout:g} s: see whether it is busy, or give it "
            "longer with --timeout."
        )

    def fault(self, error: Exception) -> RemoteFault:
        """What an exception of the clients means."""
        if isinstance(error, openai.APIStatusError):
            answer = error.response
            return RemoteFault(self.status(error.status_code, answer.content, wire.COMPLETIONS, answer.headers))
        if isinstance(error, openai.APITimeoutError | httpx.TimeoutException):
            return self.silent()
        if isinstance(error, openai.APIConnectionError | httpx.HTTPError | httpx.InvalidURL):
            why = self._quoted(str(error.__cause__ or error)) or type(error).__name__
            return RemoteFault(
                f"The connection to {self._name} failed ({why}): see whether the server runs and is still reachable."
            )
        if isinstance(error, openai.APIError):
            what = self._quoted(error.message)
            return RemoteFault(
                f"The server at {self._name} reports an error ({what}): see what it logged, and run again."
            )
        return self.garbage(error)

    def garbage(self, error: Exception) -> RemoteFault:
        """What no such server sends."""
        what = self._quoted(str(error))
        return RemoteFault(
            f"The server at {self._name} sent what no OpenAI-compatible server sends ({what}): see whether that is the "
            "right port."
        )

    def refused(self, error: openai.APIError, named: str) -> RemoteFault:
        """A refusal that speaks of a setting which changes what is drawn."""
        what = self._said(_text(error))
        return RemoteFault(f"The server at {self._name} does not take this {short(named)} ({what}): leave it off.")

    def status(self, status: int, body: bytes, path: str, headers: Mapping[str, str]) -> str:
        """An answer that is no 200, in a sentence."""
        where, what, wait = f"The server at {self._name}", self._said(body.decode(errors="replace")), _wait(headers)
        match status:
            case 401 | 403:
                if self._key is None:
                    return f"{where} wants a key: put it in an environment variable and name that with --api-key-env."
                return f"{where} does not take the key: see what the variable that --api-key-env names holds."
            case 404 if path == wire.MODELS:
                return f"{where} has no {path}: see whether an OpenAI-compatible server has that port."
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
        return f"{where} refuses the request with status {status} ({what}): see what it logged, or change the request."

    def _said(self, text: str) -> str:
        """The message in an error's body."""
        try:
            body = json.loads(text)
            error = body.get("error", body)
            text = error["message"] if isinstance(error, dict) else str(error)
        except (ValueError, KeyError, AttributeError, RecursionError):
            pass
        page = str(text).lstrip().startswith("<")  # of HTML, by a server of another kind or one before it
        return (not page and self._quoted(str(text))) or "no reason given"

    def _quoted(self, text: str) -> str:
        """A stranger's text, short, and without the key that a client or a server may quote: visitors read it."""
        return short(text.replace(self._key, "***") if self._key else text)


def broke(error: Exception) -> bool:
    """Whether a connection broke, or could not be made; silence is none of that."""
    silent = isinstance(error, openai.APITimeoutError | httpx.TimeoutException)
    return isinstance(error, openai.APIConnectionError | httpx.TransportError) and not silent


def named_in(error: Exception, settings: Iterable[str]) -> list[str]:
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
