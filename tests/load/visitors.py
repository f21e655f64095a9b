"""Many visitors at once: is every run answered, and by its own text? `python -m tests.load.visitors` says how it went.

The visitors call a page over the scripted engine on the loopback, each with prompts of its own, whose answers only the
run with that prompt can give. Some leave while they wait. Nothing here needs a model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil

from specdemo.ui.conversation import Conversation
from specdemo.ui.visitors import Rules
from tests.ui.served import Served, run_apart, served
from tests.ui.synthetic import Synthetic

PATIENCE = 300.0  # seconds for one answer
LOOK_EVERY = 0.25  # seconds between two looks at the page by somebody who waits
LEAVES = 10  # of so many visitors one leaves


class Echo(Synthetic):
    """Writes what only this prompt is answered with. Two runs at once would write each other's."""

    def _encode(self, pair: Any, prompt: str, before: Conversation, thinking: bool | None) -> Sequence[int]:
        self.text = answer_to(prompt)
        return super()._encode(pair, prompt, before, thinking)


def answer_to(prompt: str) -> str:
    """The whole text that this prompt is answered with."""
    return f"You asked: {prompt} " * 4


@dataclass
class Tally:
    """answered, lost, mixed: runs. waits: seconds from asking to the answer. looks: of the page, while others run."""

    answered: int = 0
    left: int = 0
    lost: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)  # bytes, after each tenth of the runs
    seconds: float = 0.0


async def ask(client: httpx.AsyncClient, house: Served, prompt: str, *, leaves: bool, tally: Tally) -> None:
    """One run, read to its end, or left as soon as anything of it has come."""
    begun = time.monotonic()
    name = "stream" if leaves else "compare"
    call = await client.post(f"{house.url}gradio_api/call/v2/{name}", json={"prompt": prompt, "max_new_tokens": 64})
    if call.status_code != 200:
        tally.lost.append(f"{prompt}: {call.status_code} {call.text[:200]}")
        return
    event, data = "", "null"
    async with client.stream("GET", f"{house.url}gradio_api/call/{name}/{call.json()['event_id']}") as answer:
        async for line in answer.aiter_lines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                event = rest
            elif kind == "data" and event in ("complete", "error"):
                data = rest
                break
            elif kind == "data" and event == "generating" and leaves:
                tally.left += 1
                return
    if event != "complete":
        tally.lost.append(f"{prompt}: {event} {data[:200]}")
        return
    if leaves:  # it was through before anything could be left
        tally.left += 1
        return
    (got,) = json.loads(data)
    texts = {got["prompt"], got["baseline"]["text"], got["speculative"]["text"]}
    if texts != {prompt, answer_to(prompt)[: len(got["baseline"]["text"])]} or len(got["baseline"]["text"]) < 60:
        tally.mixed.append(f"{prompt}: {texts}")
    tally.answered += 1
    tally.waits.append(time.monotonic() - begun)


async def _visit(house: Served, visitors: int, runs: int, tally: Tally) -> None:
    limits = httpx.Limits(max_connections=None)
    process = psutil.Process()
    async with httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client:
        looking = asyncio.create_task(_look(client, house, tally))

        async def visitor(number: int) -> None:
            for i in range(number, runs, visitors):
                leaves = i % LEAVES == LEAVES - 1
                await ask(client, house, f"Question {i} of visitor {number}.", leaves=leaves, tally=tally)
                if tally.answered * 10 // runs >= len(tally.resident):
                    tally.resident.append(process.memory_info().rss)

        await asyncio.gather(*(visitor(number) for number in range(visitors)))
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def _look(client: httpx.AsyncClient, house: Served, tally: Tally) -> None:
    while True:
        begun = time.monotonic()
        (await client.get(house.url + "config")).raise_for_status()
        tally.looks.append(time.monotonic() - begun)
        await asyncio.sleep(LOOK_EVERY)


def visit(visitors: int, runs: int) -> Tally:
    """So many runs by so many visitors at once."""
    tally = Tally()
    with served(Echo(), Rules(waiting=visitors)) as house:
        begun = time.monotonic()
        run_apart(_visit(house, visitors, runs, tally))
        tally.seconds = time.monotonic() - begun
        while len(house.desk.line) and time.monotonic() < begun + PATIENCE:  # of those who left
            time.sleep(0.01)
        if len(house.desk.line):
            tally.lost.append(f"{len(house.desk.line)} runs still hold a place after everybody has gone.")
    return tally


def main() -> None:
    """Print how it went; exit code 1 if a run was lost or mixed with another."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--visitors", type=int, default=100, help="at once (%(default)s)")
    parser.add_argument("--runs", type=int, default=500, help="of all together (%(default)s)")
    args = parser.parse_args()
    tally = visit(args.visitors, args.runs)
    waits, looks = sorted(tally.waits), sorted(tally.looks)
    print(f"{args.visitors} visitors, {args.runs} runs in {tally.seconds:.1f} s")
    print(f"answered {tally.answered}, left {tally.left}, lost {len(tally.lost)}, mixed {len(tally.mixed)}")
    print(f"an answer: median {statistics.median(waits):.2f} s, longest {waits[-1]:.2f} s")
    print(f"the page meanwhile: median {1000 * statistics.median(looks):.0f} ms, longest {1000 * looks[-1]:.0f} ms")
    print("resident MB after each tenth:", *(one // 2**20 for one in tally.resident))
    for one in (*tally.lost[:5], *tally.mixed[:5]):
        print(one)
    raise SystemExit(bool(tally.lost or tally.mixed))


if __name__ == "__main__":
    main()
