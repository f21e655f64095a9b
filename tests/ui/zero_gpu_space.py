"""A Space on ZeroGPU in small: the real `spaces` package, switched on, over a tiny pair and an invented device server.

`python -m tests.ui.zero_gpu_space TARGET DRAFT`. There is no GPU: the package places the weights on its stand-in for
CUDA, and where it would move them to the GPU of its own process, they stay in memory. What is the package's own here:
the stand-in at loading, the process and its queues, pickles, durations, quota, aborted tasks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse


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


def switch_on() -> Any:
    """The package as a Space on ZeroGPU has it; before torch is used."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Device)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["SPACES_ZERO_GPU"] = "true"
    os.environ["SPACES_ZERO_DEVICE_API_URL"] = f"http://127.0.0.1:{server.server_port}"
    import torch

    # A build without CUDA lacks what the package asks for and replaces.
    torch.version.cuda = torch.version.cuda or "12.8"
    torch._C._cuda_init = getattr(torch._C, "_cuda_init", None)
    torch.cuda._is_in_bad_fork = never
    from specdemo.ui.zero_engine import lender

    gpu = lender()
    import spaces.zero.torch as there
    from spaces.zero.torch.patching import cuda_aliases

    def stay(callback: object = None) -> None:
        for placed, held in cuda_aliases.items():
            placed.data = held

    there.init, there.move = lambda uuid: None, stay
    return gpu


def main(target: str, draft: str) -> None:
    """Raises where something is not as it should be."""
    gpu = switch_on()
    import torch

    from specdemo.decoding.steps import Stop
    from specdemo.models.pair_options import PairSpec
    from specdemo.race import Lane, Request
    from specdemo.ui.desk import Desk
    from specdemo.ui.worker import Ended, Order, Refused, Worker, Wrote
    from specdemo.ui.zero_engine import GRACE, START, zero_engine, zero_spec

    torch.set_num_threads(1)
    spec = zero_spec(PairSpec(target, draft, target_precision="fp32"))
    engine = zero_engine(gpu, spec)
    pair = engine.load(spec, lambda *_: None, None)
    placed = pair.weights.loaded.model
    assert {str(weight.device) for weight in placed.parameters()} == {"cuda:0"}, "on the stand-in for CUDA"
    desk = Desk(engine, spec)

    def run(stop_at: int | None = None, **request: Any) -> list[Any]:
        worker = Worker(desk, Order("Say something", spec, Request((), **{"max_new_tokens": 16, **request}))).start()
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
    assert int(asked["/schedule"]["durationSeconds"]) == START + 1 + GRACE, asked
    first = asked["/allow"]["pid"]
    assert int(first) != os.getpid() and asked["/release"]["fail"] == "false"

    assert run(stop_at=2, max_new_tokens=400)[-1] == Ended(stopped=True)
    assert run()[-1] == Ended(stopped=False)
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
    print("all as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
