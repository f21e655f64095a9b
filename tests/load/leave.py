"""How soon is the device free when a visitor leaves, and the program gone when it is told to end?

`python -m tests.load.leave` says so of app.py in public over the embedded pair, and fails where it is later than it may
be. Each visitor closes the connection of a `stream`: while the answer is written, and while a prompt is read that is as
long as a public page takes.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from specdemo.request_log import lines_of
from tests.load.page import ROOT, ready, stands

MOST = 1.0  # seconds until the device is free
ENDS = 5.0  # seconds until the program has ended
AFTER = (0, 0.3, 0.6, 1, 1.5, 2, 3)  # of a prompt that takes some eight
PROMPTS = {
    "the answer is written": "Tell me about rivers, in as many words as you can.",
    "a prompt of 2,000 tokens is read": "river " * 1950,
}


def values(lines: Iterator[str]) -> Iterator[dict]:
    """What a stream gives."""
    for line in lines:
        if line.startswith("data: "):
            (value,) = json.loads(line.removeprefix("data: "))
            yield value


@contextmanager
def streaming(http: httpx.Client, prompt: str) -> Iterator[Iterator[dict]]:
    """Within, a run whose values come; then the connection is closed, whatever the run was at."""
    body = {"prompt": prompt, "max_new_tokens": 512}
    call = http.post("call/v2/stream", json=body).raise_for_status().json()["event_id"]
    with http.stream("GET", f"call/stream/{call}") as answer:
        yield values(answer.iter_lines())


def freed(http: httpx.Client, prompt: str, after: float, *, writes: bool) -> float:
    """Seconds from leaving to a free device: so many after the lanes have written, or else after the race began."""
    with streaming(http, prompt) as told:
        steps = 0
        for value in told:
            steps += len(value["steps"])
            if value["state"] == "running" and (steps > 20 or not writes):
                break
        else:
            raise SystemExit("The run was over before anybody could leave it.")
        if not writes and steps:
            raise SystemExit("The prompt was read before anybody could leave.")
        time.sleep(after)
        begun = time.monotonic()
    while health(http)["runs"]:
        time.sleep(0.005)
    return time.monotonic() - begun


def health(http: httpx.Client) -> dict:
    """What the page says of itself."""
    call = http.post("call/v2/health", json={}).raise_for_status().json()["event_id"]
    with http.stream("GET", f"call/health/{call}") as answer:
        return next(values(answer.iter_lines()))


def ended(http: httpx.Client, page: subprocess.Popen) -> float:
    """Seconds from SIGTERM in the middle of a run to the program's end."""
    with streaming(http, PROMPTS["the answer is written"]) as told:
        next(value for value in told if value["steps"])
        begun = time.monotonic()
        page.send_signal(signal.SIGTERM)
        page.wait(60)
        return time.monotonic() - begun


def main() -> None:
    """Print seconds; exit code 1 where one is over its bound, or the log has lost the run that SIGTERM ended."""
    late = False
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "runs.jsonl")
        command = [sys.executable, "app.py", "--public", "--runs-a-minute", "1000", "--log", str(log)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as page:
            try:
                with httpx.Client(base_url=f"{stands(page)}gradio_api/", timeout=60) as http:
                    ready(lambda: health(http))
                    for doing, prompt in PROMPTS.items():
                        took = sorted(freed(http, prompt, after, writes="written" in doing) for after in AFTER)
                        middle = statistics.median(took)
                        print(f"who leaves while {doing}: free after {middle:.2f} s, at most {took[-1]:.2f} s")
                        late |= took[-1] > MOST
                    took = ended(http, page)
            finally:
                page.kill()
        last = json.loads(list(lines_of(log))[-1])["outcome"]
        print(f"SIGTERM in the middle of a run: ended after {took:.2f} s, the run stands in the log as {last}")
        late |= took > ENDS or last != "stopped"
    raise SystemExit(late)


if __name__ == "__main__":
    main()
