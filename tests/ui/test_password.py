"""Where the host asks for a password, nothing runs and nothing is told to who has not given it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from gradio_client import Client

import app
from tests.ui.served import Served, served

CALL = {"prompt": "Tell me", "max_new_tokens": 8}
VALUES = {"data": ["Tell me", *[None] * 15]}
EVENT = {"fn_index": 0, "data": [None], "session_hash": "somebody"}
ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
TAKES = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def house() -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMO_PASSWORD", "ann:swordfish")
        knows = app.doorkeeper("DEMO_PASSWORD")
    with served(auth=knows) as house:
        yield house


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("call/v2/compare", CALL),
        ("call/compare", VALUES),
        ("run/compare", VALUES),
        ("run/predict", EVENT),
        ("queue/join", EVENT),
        ("mcp/", ASK),
        ("mcp/sse", None),
        ("mcp/schema", None),
        ("info", None),
        ("openapi.json", None),
        ("queue/data?session_hash=somebody", None),
        ("call/compare/somebody", None),
        ("file=app.py", None),
    ],
)
def test_who_has_not_given_it_is_turned_away(house: Served, path: str, body: dict | None) -> None:
    method, url = ("GET" if body is None else "POST"), f"{house.url}gradio_api/{path}"
    for cookies in ("", "access-token=guessed"):
        head = TAKES | ({"cookie": cookies} if cookies else {})
        answer = httpx.request(method, url, json=body, headers=head)
        assert answer.status_code == 401, answer.text
    assert house.script.steps == [] and len(house.desk.line) == 0


def test_the_page_itself_tells_nothing_of_the_house(house: Served) -> None:
    told = httpx.get(house.url).text
    assert re.search(r'"components": ?\[\]', told) and re.search(r'"auth_required": ?true', told)
    assert httpx.get(house.url + "config").status_code == 401
    wrong = httpx.post(house.url + "login", data={"username": "ann", "password": "sardine"})
    assert wrong.status_code == 400 and "set-cookie" not in wrong.headers
    with pytest.raises(ValueError, match="Could not login"):
        Client(house.url, auth=("ann", "sardine"), verbose=False)


def test_who_has_given_it_is_answered(house: Served) -> None:
    client = Client(house.url, auth=("ann", "swordfish"), verbose=False)
    assert client.predict(**CALL, api_name="/compare")["state"] == "done"
