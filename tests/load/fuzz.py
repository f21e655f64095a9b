"""What does the API answer to whatever anybody sends? `python -m tests.load.fuzz` sends 2,000 inputs and counts.

Calls of the API, over plain HTTP and as MCP tools, events of the page (runs, files that are brought, the Lab's forms
and votes, links that set Settings) and addresses. Every answer must be a result or an error that is a sentence, within
seconds, and no status may be a 5xx. The page runs in public, where no name that is sent may reach the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from specdemo.ui.visitors import Rules
from tests.ui.served import Served, run_apart, served
from tests.ui.synthetic import Synthetic

PATIENCE = 30.0  # seconds for one answer; a hang is longer
AT_ONCE = 6
STRINGS = [
    "", " ", "\x00", "\x1b[2J", "a" * 5000, "word " * 3000, "﷽" * 200, "\ud800", "é\u0301" * 50, "\u202egnp.exe",
    "<script>alert(1)</script>", "{{7*7}}${7*7}", "__i18n__{x}", "'; DROP TABLE runs; --", "%s%n%x", "{prompt}",
    "../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "~/.ssh/id_rsa", "C:\\Windows\\win.ini", "NaN",
    "..%2f..%2f", "http://169.254.169.254/latest/meta-data", "nobody/nothing", "ngram+../..", "embedded", "model",
    "<|im_end|>", "🏁" * 99, "shared noise", "rejection", "block", "raced", "one after another", "fixed", "entropy",
    "Tell me about rivers.", "Tell me about lists.",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 5, 16, 17, 10**30, -(10**30), 2**63, 0.5, 1.5, -0.0, 1e308, 5e-324, float("nan"),
    float("inf"), [], {}, [[]], {"a": 1}, {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
    {"__type__": "update"}, ["x"] * 40, *STRINGS,
]  # fmt: skip
NAMES = [
    "prompt", "max_new_tokens", "gamma", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "rule",
    "mode", "draft_length", "drafter", "stop_strings",
]  # fmt: skip
PATHS = [
    "call/compare", "call/v2/nothing", "call/v2/", "run/compare", "run/predict", "queue/join", "upload", "cancel",
    "reset", "component_server", "process_recording", "stream/x", "vibe-edit", "api/compare",
    "call/v2/%2e%2e/config", "login", "mcp/", "mcp/messages/?session_id=x", "mcp/schema",
]  # fmt: skip
ADDRESSES = [
    "", "?page=nowhere", "?deep_link=../../x", "?__theme=x&gamma=9e9", "config", "config?deep_link=x", "config?page=x",
    "theme.css", "metrics", "logout", "login/huggingface", "monitoring", "monitoring/summary", "robots.txt",
    "manifest.json", "assets/..%2f..%2f..%2fapp.py", "static/%2e%2e/%2e%2e/routes.py", "assets/x", "svelte/..%2fx",
    "gradio_api/info", "gradio_api/info?page=x", "gradio_api/openapi.json", "gradio_api/deep_link?session_hash=s",
    "gradio_api/file=/etc/passwd", "gradio_api/file=app.py", "gradio_api/file/../app.py", "gradio_api/runs",
    "gradio_api/proxy=http://169.254.169.254/", "gradio_api/custom_component/x/client/y/z.js", "gradio_api/token",
    "gradio_api/upload_progress?upload_id=x", "gradio_api/stream/a/b/1/playlist.m3u8", "gradio_api/app_id",
]  # fmt: skip
TOOLS = ["compare", "stream", "pairs", "health", "nothing"]
METHODS = ["tools/call", "tools/call", "tools/call", "tools/list", "resources/read", "initialize", "nothing"]
RACE = min((Path(__file__).parents[2] / "assets" / "runs").glob("*.json"), key=lambda path: path.stat().st_size)
RESULT: dict[str, Any] = {"format": "specdemo lab", "version": 1, "experiment": "sweep", "options": {}, "pair": {}}
FILES = [
    RACE.read_text("utf-8"),
    json.dumps(RESULT | {"environment": {}, "cells": 1, "rows": [], "findings": []}),
    "one prompt\nanother\n",
    '{"prompt": "one"}\n{"prompt": "another", "kind": "code"}\n',
]
OPTIONS = ["gammas", "prompts", "drafters", "temperatures", "repeats", "rows", "kinds", "seed", "ask", "max_new_tokens"]
EVENTS: dict[str, list[Any]] = {  # what the page's own scripts send, and what else might be in its place
    "experiment": ["sweep", "batch", "quality", "router", "diagnose", "length", "witness"],
    "do": ["begin", "cast", "reveal"],
    "choice": ["left", "right", "alike"],
    "kind": ["json", "csv", "md", "html"],
    "language": ["en", "zh-CN", "zh-TW", "xx"],
    "run": [1, 2, -1, 10**9],
    "at": [0, 1],
    "index": [0, 1, -1, 10**9],
    "lane": ["baseline", "speculative"],
    "step": [0, 1, 10**9],
    "speed": [1, 0.25],
    "resume": [True],
    "field": ["prompts"],
    "name": ["mine.txt"],
}


@dataclass
class Findings:
    """statuses, ends: how often. wrong: inputs that were answered as none may be. chosen: drafters it came to."""

    statuses: Counter[int] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    chosen: set[str] = field(default_factory=set)


def some(draw: random.Random, takes: dict[int, int]) -> tuple[str, bytes | None]:
    """A path and a body; no body: an address to look at. takes: how many values the page's functions take."""
    kind = draw.random()
    if kind < 0.05:
        return draw.choice(ADDRESSES), None
    if kind < 0.45:
        return f"call/v2/{draw.choice(['compare', 'stream'])}", _json(named(draw))
    if kind < 0.48:
        tool = {"name": draw.choice(TOOLS), "arguments": named(draw) if draw.random() < 0.8 else draw.choice(VALUES)}
        wanted = tool if draw.random() < 0.8 else draw.choice(VALUES)
        return "mcp/", _json({"jsonrpc": "2.0", "id": 1, "method": draw.choice(METHODS), "params": wanted})
    if kind < 0.55:
        return "call/compare", _json(
            {"data": [draw.choice(VALUES) for _ in range(draw.choice([0, 1, 15, 15, 15, 16]))]}
        )
    if kind < 0.85:  # an event of the page, by its number
        number = draw.choice([-1, *takes, *takes, max(takes) + 1])
        many = takes.get(number, 1) if draw.random() < 0.8 else draw.choice([0, 1, 2, 19])
        asked = {"fn_index": number, "session_hash": draw.choice(["s", "s", "t", None, 3, "a" * 99])}
        asked["data"] = [draw.choice(VALUES) for _ in range(many)]
        asked["event_data"] = draw.choice([None, [], "x"]) if draw.random() < 0.1 else event_data(draw)
        return f"run/predict{link(draw)}", _json(asked)
    if kind < 0.95:
        return draw.choice(PATHS), _json(draw.choice([*VALUES, {"data": draw.choice(VALUES)}]))
    body = draw.randbytes(draw.randint(0, 400)) if draw.random() < 0.5 else b"[" * 20000 + b'{"data":'
    return draw.choice(PATHS), body


def named(draw: random.Random) -> dict[str, Any]:
    """Parameters of a call."""
    asked = {name: draw.choice(VALUES) for name in draw.sample(NAMES, draw.randint(0, 4))}
    if draw.random() < 0.8:
        asked["prompt"] = draw.choice(STRINGS)
    return asked


def event_data(draw: random.Random) -> dict[str, Any]:
    """What an event of the page might carry."""
    data = {name: draw.choice(EVENTS[name]) for name in draw.sample(list(EVENTS), 6)}
    if draw.random() < 0.6:
        data["text"] = spoilt(draw)
    if draw.random() < 0.4:
        data["options"] = {name: draw.choice(VALUES) for name in draw.sample(OPTIONS, 3)}
    if draw.random() < 0.2:
        data["set"] = {name: draw.choice(VALUES) for name in draw.sample(NAMES, 2)}
    if draw.random() < 0.3:
        data[draw.choice(list(data))] = draw.choice(VALUES)
    return data


def spoilt(draw: random.Random) -> str:
    """A file that might be brought, cut short, or with something in it that does not belong there."""
    text, kind = draw.choice(FILES), draw.random()
    at = draw.randrange(len(text))
    if kind < 0.25:
        return text[:at]
    if kind < 0.5:
        return text[:at] + draw.choice(STRINGS) + text[at + draw.randrange(40) :]
    numbers = list(re.finditer(r"-?\d[\d.e-]*", text))
    if kind < 0.9 and numbers:
        one = draw.choice(numbers)
        wrong = draw.choice(["1e999", "-1", "NaN", "9" * 40, '"x"', "null", "[]", "{}", "true", "1e308"])
        return text[: one.start()] + wrong + text[one.end() :]
    return text


def link(draw: random.Random) -> str:
    """Settings in an address, which the page's load reads; mostly none."""
    if draw.random() < 0.7:
        return ""
    named = ((draw.choice([*NAMES, "lang", "nothing", "preset"]), draw.choice(STRINGS)) for _ in range(3))
    return "?" + "&".join(f"{name}={quote(value, errors='replace')}" for name, value in named)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def send(client: httpx.AsyncClient, house: Served, path: str, body: bytes | None, findings: Findings) -> None:
    """One input; what is wrong with its answer goes into the findings."""
    told = f"{path} {(body or b'')[:300]!r}"
    head = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    try:
        if body is None:
            await look(client, house, path, findings)
            return
        call = await client.post(f"{house.url}gradio_api/{path}", content=body, headers=head)
        findings.statuses[call.status_code] += 1
        if call.status_code >= 500 or "Traceback" in call.text:
            findings.wrong.append(f"{told}: {call.status_code} {call.text[:300]}")
        if call.status_code != 200 or not path.startswith("call/"):
            return
        event, data = await _end(client, f"{house.url}gradio_api/call/x/{call.json()['event_id']}")
    except httpx.HTTPError as error:
        findings.wrong.append(f"{told}: {type(error).__name__} {error}")
        return
    findings.ends[event] += 1
    said = json.loads(data or "null")
    sentence = said.get("error") if event == "error" and isinstance(said, dict) else None
    told_well = event == "complete" or (isinstance(sentence, str) and sentence.endswith((".", "…")))
    if not told_well:
        findings.wrong.append(f"{told}: {event} {data[:300]}")


async def look(client: httpx.AsyncClient, house: Served, path: str, findings: Findings) -> None:
    """An address: no secret of the machine, nothing but the page's own, and the headers that bind a browser."""
    answer = await client.get(f"{house.url}{path}")
    findings.statuses[answer.status_code] += 1
    leaks = any(word in answer.text for word in ("root:x:0:", "def leave_on_sigterm", "def create_app"))
    if answer.status_code >= 500 or leaks or "content-security-policy" not in answer.headers:
        findings.wrong.append(f"{path}: {answer.status_code} {answer.text[:300]} {answer.headers}")


async def _end(client: httpx.AsyncClient, url: str) -> tuple[str, str]:
    """The last event of a call and its data."""
    event = "nothing"
    async with client.stream("GET", url) as answer:
        async for line in answer.aiter_lines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                event = rest
            elif kind == "data" and event in ("complete", "error"):
                return event, rest
    return event, ""


async def _fuzz(house: Served, inputs: int, seed: int, findings: Findings) -> None:
    draw = random.Random(seed)
    takes = {number: len(fn.inputs) for number, fn in house.page.blocks.fns.items()}
    left = iter([some(draw, takes) for _ in range(inputs)])
    no_keeping = httpx.Limits(max_keepalive_connections=0)  # a kept connection may be closed as it is used again
    async with httpx.AsyncClient(timeout=PATIENCE, limits=no_keeping) as client:

        async def sender() -> None:
            for path, body in left:
                await send(client, house, path, body, findings)

        await asyncio.gather(*(sender() for _ in range(AT_ONCE)))


def fuzz(inputs: int, seed: int = 0) -> Findings:
    """Send so many inputs to a public page over the scripted engine; a proper call must work afterwards."""
    findings = Findings()
    script = Synthetic()
    made = script.engine()
    engine = replace(made, choose=lambda spec, name, *rest: findings.chosen.add(name) or made.choose(spec, name, *rest))
    with served(script, Rules(public=True, waiting=64, new_tokens=256, prompt_tokens=1000), engine) as house:
        run_apart(_fuzz(house, inputs, seed, findings))
        after = Findings()
        run_apart(_proper(house, after))
        findings.wrong += [] if after.ends == {"complete": 1} else [f"Afterwards nothing works: {after}"]
    return findings


async def _proper(house: Served, findings: Findings) -> None:
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        await send(client, house, "call/v2/compare", b'{"prompt": "Tell me"}', findings)


def main() -> None:
    """Print what came back; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=2000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    args = parser.parse_args()
    findings = fuzz(args.inputs, args.seed)
    print("statuses:", dict(sorted(findings.statuses.items())))
    print("calls ended with:", dict(findings.ends))
    print("drafters that reached the engine:", *sorted(findings.chosen))
    print(f"wrong: {len(findings.wrong)}")
    for one in findings.wrong[:10]:
        print(one)
    raise SystemExit(bool(findings.wrong))


if __name__ == "__main__":
    main()
