"""What does a crowd get from a page? Each asks with prompts of its own, and some leave while they wait.

Meanwhile somebody opens the page again and again. A process of its own, so that it takes no time from the page but the
processor's: `visitors.py` starts it and reads the Tally that it prints.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
import psutil

PATIENCE = 300.0  # seconds for one answer
LOOK_EVERY = 0.25  # seconds between two looks at the page
LEAVES = 10  # of so many runs one is left
BROWSER = {"accept-encoding": "gzip, deflate, br"}


def answer_to(prompt: str) -> str:
    """The whole text that this prompt is answered with."""
    return f"You asked: {prompt} " * 4


@dataclass
class Tally:
    """answered, lost, mixed: runs. waits: seconds from asking to the answer.

    pages: seconds to have the page, while others run. firsts: seconds from then to what its header shows first, by the
    queue that the runs stand in, too. resident: the server's bytes, after each tenth of the runs.
    """

    answered: int = 0
    left: int = 0
    lost: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    seconds: float = 0.0


async def ask(client: httpx.AsyncClient, url: str, prompt: str, *, leaves: bool, tally: Tally) -> None:
    """One run, read to its end, or left as soon as anything of it has come."""
    begun = time.monotonic()
    name = "stream" if leaves else "compare"
    call = await client.post(f"{url}gradio_api/call/v2/{name}", json={"prompt": prompt, "max_new_tokens": 64})
    if call.status_code != 200:
        tally.lost.append(f"{prompt}: {call.status_code} {call.text[:200]}")
        return
    event, data = "", "null"
    async with client.stream("GET", f"{url}gradio_api/call/{name}/{call.json()['event_id']}") as answer:
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


async def look(client: httpx.AsyncClient, url: str, tally: Tally) -> None:
    """Open the page as a browser does, until cancelled."""
    config = (await client.get(f"{url}config")).json()
    (header,) = (one["id"] for one in config["components"] if one["props"].get("elem_id") == "sd-header")
    loads = [one for one in config["dependencies"] if any(event == "load" for _, event in one["targets"])]
    (first,) = (one["id"] for one in loads if one["outputs"] == [header])
    while True:
        begun = time.monotonic()
        (await client.get(url, headers=BROWSER)).raise_for_status()
        there = time.monotonic()
        tally.pages.append(there - begun)
        await _first_value(client, url, first)
        tally.firsts.append(time.monotonic() - there)
        await asyncio.sleep(LOOK_EVERY)


async def _first_value(client: httpx.AsyncClient, url: str, event: int) -> None:
    visitor = {"session_hash": uuid.uuid4().hex}
    asked = {"fn_index": event, "data": [], **visitor}
    (await client.post(f"{url}gradio_api/queue/join", json=asked)).raise_for_status()
    async with client.stream("GET", f"{url}gradio_api/queue/data", params=visitor) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and "output" in json.loads(line.removeprefix("data: ")):
                return


async def crowd(url: str, visitors: int, runs: int, server: psutil.Process) -> Tally:
    """So many runs by so many visitors at once."""
    tally, begun = Tally(), time.monotonic()
    limits = httpx.Limits(max_connections=None, keepalive_expiry=1)  # the server closes what is idle for five
    async with httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client:
        looking = asyncio.create_task(look(client, url, tally))

        async def visitor(number: int) -> None:
            for i in range(number, runs, visitors):
                leaves = i % LEAVES == LEAVES - 1
                await ask(client, url, f"Question {i} of visitor {number}.", leaves=leaves, tally=tally)
                if tally.answered * 10 // runs >= len(tally.resident):
                    tally.resident.append(server.memory_info().rss)

        await asyncio.gather(*(visitor(number) for number in range(visitors)))
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    tally.seconds = time.monotonic() - begun
    return tally


def main() -> None:
    """Print the Tally as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url", help="of the page, with a slash at its end")
    parser.add_argument("--visitors", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--server", type=int, required=True, help="its process, whose memory is read")
    args = parser.parse_args()
    tally = asyncio.run(crowd(args.url, args.visitors, args.runs, psutil.Process(args.server)))
    print(json.dumps(dataclasses.asdict(tally)))


if __name__ == "__main__":
    main()
