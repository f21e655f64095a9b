"""What does the API answer to whatever anybody sends? `python -m tests.load.fuzz` sends 2,000 inputs and counts.

Every answer must be a result or an error that is a sentence, within seconds, and no status may be a 5xx. The page runs
in public, where no name that is sent may reach the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

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
    "call/v2/%2e%2e/config", "login",
]  # fmt: skip


@dataclass
class Findings:
    """statuses, ends: how often. wrong: inputs that were answered as none may be. chosen: drafters it came to."""

    statuses: Counter[int] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    chosen: set[str] = field(default_factory=set)


def some(draw: random.Random, functions: int) -> tuple[str, bytes]:
    """A path and a body."""
    kind = draw.random()
    if kind < 0.55:
        asked = {name: draw.choice(VALUES) for name in draw.sample(NAMES, draw.randint(0, 4))}
        if draw.random() < 0.8:
            asked["prompt"] = draw.choice(STRINGS)
        return f"call/v2/{draw.choice(['compare', 'stream'])}", _json(asked)
    if kind < 0.7:
        return "call/compare", _json(
            {"data": [draw.choice(VALUES) for _ in range(draw.choice([0, 1, 15, 15, 15, 16]))]}
        )
    if kind < 0.85:  # an event of the page, by its number
        asked = {"fn_index": draw.randrange(-2, functions + 2), "session_hash": draw.choice(["s", None, 3, "a" * 99])}
        asked["data"] = [draw.choice(VALUES) for _ in range(draw.choice([0, 0, 1, 1, 2, 18, 19, 20]))]
        asked["event_data"] = draw.choice([None, {}, {"run": 1}, {"run": "x"}, {"text": "{}"}, {"index": 10**9}, []])
        return "run/predict", _json(asked)
    if kind < 0.95:
        return draw.choice(PATHS), _json(draw.choice([*VALUES, {"data": draw.choice(VALUES)}]))
    body = draw.randbytes(draw.randint(0, 400)) if draw.random() < 0.5 else b"[" * 20000 + b'{"data":'
    return draw.choice(PATHS), body


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def send(client: httpx.AsyncClient, house: Served, path: str, body: bytes, findings: Findings) -> None:
    """One input; what is wrong with its answer goes into the findings."""
    told = f"{path} {body[:300]!r}"
    head = {"content-type": "application/json"}
    try:
        call = await client.post(f"{house.url}gradio_api/{path}", content=body, headers=head)
        findings.statuses[call.status_code] += 1
        if call.status_code >= 500:
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
    functions = len(house.page.blocks.fns)
    left = iter([some(draw, functions) for _ in range(inputs)])
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
