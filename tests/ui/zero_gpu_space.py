"""A Space on ZeroGPU in small: the real `spaces` package, switched on, over a tiny pair and an invented device server.

`python -m tests.ui.zero_gpu_space TARGET DRAFT FOLDER`. There is no GPU: where the package would move weights to one of
its process's own, they come back into memory. What is the package's own here: its stand-in for CUDA at loading, the
weights in a file once the page is launched, the process and its queues, pickles, durations, quota, aborted tasks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx

TOKEN = "of.the.visitor"  # ZeroGPU's proxy sends it along, and the quota is its owner's


class Device(BaseHTTPRequestHandler):
    """The server that lends: to everybody, unless `quota`; it kills whom it has lent to if `takes_back`."""

    asked: list[tuple[str, dict[str, str]]] = []  # noqa: RUF012
    quota = False
    takes_back = False

    def do_POST(self) -> None:
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append((url.path, query))
        if url.path == "/schedule" and self.quota:
            self._answer(429, {"left": 3, "wait": "PT1H"})
        elif url.path == "/schedule":
            self._answer(200, {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "none", "allowToken": "token"})
        else:
            self._answer(200, {})
        if url.path == "/allow" and self.takes_back:
            os.kill(int(query["pid"]), signal.SIGKILL)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: object) -> None:
        """Nothing."""


def never() -> bool:
    """Whether CUDA was in use before a fork."""
    return False


def switch_on(folder: str) -> Any:
    """The package as a Space on ZeroGPU has it; before torch is used."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Device)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["SPACES_ZERO_GPU"] = "true"
    os.environ["SPACES_ZERO_DEVICE_API_URL"] = f"http://127.0.0.1:{server.server_port}"
    os.environ["ZEROGPU_OFFLOAD_DIR"] = f"{folder}/tensors"
    os.O_DIRECT = 0  # not every folder for tests can be written past the system's cache
    import torch

    # A build without CUDA lacks what the package asks for and replaces.
    torch.version.cuda = torch.version.cuda or "12.8"
    torch._C._cuda_init = getattr(torch._C, "_cuda_init", None)
    torch.cuda._is_in_bad_fork = never
    from specdemo.ui.zero_engine import lender

    gpu = lender()
    import spaces.zero.torch as there

    there.init, there.move = lambda uuid: None, come_back
    return gpu


def come_back(callback: object = None) -> None:
    """All weights, out of the package's file."""
    import torch
    from spaces.zero.torch.patching import tensor_packs

    for pack in tensor_packs:
        with open(pack.path(), "rb") as file:
            for tensor, size, aligned in (one for group in (*pack.batches, pack.big_tensors) for one in group):
                storage = torch.frombuffer(bytearray(file.read(aligned)), dtype=torch.uint8)[:size].untyped_storage()
                for placed in pack.fakes[tensor]:
                    placed.data = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, tensor.shape, tensor.stride())


def main(target: str, draft: str, folder: str) -> None:
    """Raises where something is not as it should be."""
    gpu = switch_on(folder)
    import torch

    import app
    from specdemo.decoding.steps import Stop
    from specdemo.models.pair_options import PairSpec
    from specdemo.race import Lane, Request
    from specdemo.ui.page import build_page, launch_options
    from specdemo.ui.visitors import OWN
    from specdemo.ui.worker import Ended, Order, Refused, Worker, Wrote
    from specdemo.ui.zero_engine import GRACE, START

    torch.set_num_threads(1)
    desk, *begin_with = app._lent(gpu, PairSpec(target, draft, target_precision="fp32"), OWN)
    model = desk.engine.load(desk.spec, lambda *_: None, None).weights.loaded.model
    assert {str(weight.device) for weight in model.parameters()} == {"cuda:0"}, "on the stand-in for CUDA"
    page = build_page(desk, *begin_with)
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options(OWN))
    assert Device.asked == [("/startup-report", {})] and list(Path(folder).glob("tensors/*")), "placed before it stands"
    desk.open()

    def run(stop_at: int | None = None, **request: Any) -> list[Any]:
        asked = Request((), **{"max_new_tokens": 16, **request})
        worker = Worker(desk, Order("Say something", desk.spec, asked)).start()
        seen: list[Any] = []
        while not (seen and isinstance(seen[-1], Ended | Refused)):
            seen += worker.drain(0.05)
            if stop_at is not None and sum(isinstance(one, Wrote) for one in seen) >= stop_at:
                worker.stop.set()
        return seen

    seen = run()
    wrote = [one for one in seen if isinstance(one, Wrote)]
    assert seen[-1] == Ended(stopped=False), seen[-1]
    texts = {lane: [t.id for one in wrote if one.lane is lane for t in one.step.tokens] for lane in Lane}
    assert len(texts[Lane.BASELINE]) == 16 and texts[Lane.BASELINE] == texts[Lane.SPECULATIVE]
    assert {one.step.stop for one in wrote} == {None, Stop.BUDGET}
    asked = dict(Device.asked)
    assert START < int(asked["/schedule"]["durationSeconds"]) - GRACE < START + 4, asked
    first = asked["/allow"]["pid"]
    assert int(first) != os.getpid() and asked["/release"]["fail"] == "false"
    assert run(stop_at=2, max_new_tokens=400)[-1] == Ended(stopped=True)

    called = {"prompt": "Say something", "max_new_tokens": 16}
    event = httpx.post(f"{url}gradio_api/call/v2/compare", json=called, headers={"x-ip-token": TOKEN}).json()
    answer = httpx.get(f"{url}gradio_api/call/compare/{event['event_id']}", timeout=60).text
    assert '"state": "done"' in answer, answer
    assert dict(Device.asked)["/schedule"]["token"] == TOKEN, "the visitor's own quota"
    pids = [query["pid"] for path, query in Device.asked if path == "/allow"]
    assert pids == [first], "one process for all three runs"

    Device.quota = True
    refused = run()[-1]
    assert "the quota is used up" in refused.params["message"], refused
    Device.quota, Device.takes_back = False, True
    os.kill(int(first), signal.SIGKILL)  # so that another one is made, which is killed as soon as it has the GPU
    refused = run()[-1]
    assert "took the GPU back" in refused.params["message"], refused
    Device.takes_back = False
    assert run()[-1] == Ended(stopped=False)
    page.close(verbose=False)
    print("all as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
