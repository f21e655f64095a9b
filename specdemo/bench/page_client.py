"""A client that presses Run on the real page, reads its stream and draws nothing.

The page runs in a process of its own, as `python app.py` does; the client speaks what the browser speaks (Gradio's
queue over HTTP and server-sent events), so that everything but the drawing is on the machine while it is measured.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from gradio_client.utils import apply_diff

from specdemo.bench.sides import Sample
from specdemo.race import Lane

APP = Path(__file__).resolve().parents[2] / "app.py"
START_SECONDS, SILENT_SECONDS = 120.0, 300.0
API = "/gradio_api"


class PageFailed(RuntimeError):
    """The page did not start, or a run on it did not end well; the message says what it said."""


@contextmanager
def serve(options: Sequence[str]) -> Iterator[PageClient]:
    """Within: the page of app.py, started with these options, on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        environment = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"}
        command = [sys.executable, str(APP), "--host", "127.0.0.1", "--port", str(port), *options]
        page = subprocess.Popen(command, cwd=APP.parent, stdout=log, stderr=log, env=environment)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SILENT_SECONDS) as http:
                yield PageClient(http, _config(http, page, log))
        finally:
            page.terminate()
            try:
                page.wait(10)
            except subprocess.TimeoutExpired:
                page.kill()
                page.wait()


def _config(http: httpx.Client, page: subprocess.Popen, log: Any) -> dict[str, Any]:
    """The page's own description, once it stands."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if page.poll() is not None:
            break
        try:
            return http.get("/config").raise_for_status().json()
        except httpx.HTTPError:
            time.sleep(0.2)
    log.seek(0)
    raise PageFailed(f"The page did not start: {log.read().decode(errors='replace').strip()[-500:]}")


class PageClient:
    """One visitor. run() presses Run once and waits for the end."""

    def __init__(self, http: httpx.Client, config: dict[str, Any]) -> None:
        self._http = http
        self._by_id = {component["id"]: component["props"] for component in config["components"]}
        button = next(i for i, props in self._by_id.items() if props.get("elem_id") == "sd-run")
        self._event = next(d for d in config["dependencies"] if [button, "click"] in [t[:2] for t in d["targets"]])

    def run(self, prompt: str, **settings: object) -> dict[Lane, Sample]:
        """Both lanes' Samples, by the clock that the page shows. settings: of the page, by name."""
        given = {"sd-prompt": prompt} | {f"sd-set-{name}": value for name, value in settings.items()}
        inputs = [self._by_id[i] for i in self._event["inputs"]]
        data = [given.get(props.get("elem_id"), props.get("value")) for props in inputs]
        outputs = dict(zip(self._event["outputs"], self._stream(data), strict=True))
        panes = {self._by_id[i].get("elem_id"): value for i, value in outputs.items()}
        samples = {lane: _read_pane(panes[f"sd-{lane}"]) for lane in Lane}
        if any(sample is None for sample in samples.values()):
            raise PageFailed(f"A run on the page wrote nothing: {str(list(outputs.values())[2])[:500]}")
        return samples

    def _stream(self, data: list[object]) -> list[Any]:
        """The outputs' last values. Events are only kept while the run goes on, and read when it has ended."""
        session = uuid.uuid4().hex
        body = {"data": data, "fn_index": self._event["id"], "session_hash": session}
        self._http.post(f"{API}/queue/join", json=body).raise_for_status()
        lines = []
        with self._http.stream("GET", f"{API}/queue/data", params={"session_hash": session}) as response:
            for line in response.iter_lines():
                lines.append(line)
                if '"process_completed"' in line or '"unexpected_error"' in line:
                    break
        return _last_values([json.loads(line[5:]) for line in lines if line.startswith("data:")])


def _last_values(messages: list[dict[str, Any]]) -> list[Any]:
    """Fold a stream: the first message holds whole values, the next ones what changed; what is skipped stays."""
    values: list[Any] = []
    shown: list[Any] = []
    for message in messages:
        if message["msg"] in ("unexpected_error", "queue_full") or message.get("success") is False:
            raise PageFailed(f"The page failed: {message.get('output') or message.get('message')}")
        if message["msg"] != "process_generating":
            continue
        new = message["output"]["data"]
        values = [apply_diff(old, change) for old, change in zip(values, new, strict=True)] if values else new
        shown = [old if _skipped(value) else value for value, old in zip(values, shown or values, strict=True)]
    return shown


def _skipped(value: object) -> bool:
    """Whether a value leaves the page as it is."""
    return isinstance(value, dict) and value.get("__type__") == "update"


def _read_pane(text: object) -> Sample | None:
    """A pane's NDJSON: a header, then a line a step with the lane's clock and the step's tokens."""
    steps = [json.loads(line) for line in text.splitlines()[1:]] if isinstance(text, str) else []
    if not steps:
        return None
    first, last = steps[0], steps[-1]
    ids = tuple(token[0] for step in steps for token in step["k"])
    return Sample(ids, len(first["k"]), last["t"] - first["t"], last["t"], passes=len(steps) - 1)
