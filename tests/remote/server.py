"""A small local server that speaks vLLM's format from transcripts, written by hand or recorded of a real one."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "remote"
RECORDED = Path(__file__).resolve().parents[1] / "data" / "vllm"
WORDS = {10: "The", 11: " cat", 12: " sat", 13: " on", 14: " the", 15: " mat", 16: ".", 17: " The", 2: "</s>"}
Answer = tuple[int, str | bytes]


def transcript(name: str) -> str:
    return (DATA / f"by_hand_{name}").read_text("utf-8")


def messages(sse: str) -> list[dict]:
    return [json.loads(line[6:]) for line in sse.splitlines() if line.startswith("data: {")]


def recorded(name: str) -> Script:
    """A server that says what a real one said; it spells what its plain neighbour wrote token by token."""
    script = Script()
    text = (RECORDED / f"{name}.sse").read_text("utf-8")
    script.stream = (200, text)
    script.metrics = [(RECORDED / f"{name}.{when}.prom").read_text("utf-8") for when in ("before", "after")]
    script.models = (200, json.dumps({"data": [{"id": "model", "max_model_len": 1024}]}))
    script.room = 1024
    prompt = messages(text)[0]["choices"][0]["prompt_token_ids"]
    script.tokens = lambda body: prompt
    written = messages((RECORDED / "plain.sse").read_text("utf-8")) + messages(text)
    single = [one["choices"][0] for one in written if one["choices"] and len(one["choices"][0]["token_ids"]) == 1]
    script.words = {one["token_ids"][0]: one["text"] for one in single}
    return script


def without_ids(script: Script) -> Script:
    """The same server before it knew return_token_ids."""
    script.stream = (200, re.sub(r',\s*"token_ids":\s*\[[^]]*\]', "", script.stream[1]))
    return script


def beginning(script: Script, chunks: int) -> Script:
    """The same server, which says no more than so many chunks."""
    script.stream = (200, "\n\n".join([*script.stream[1].split("\n\n")[:chunks], ""]))
    return script


def writing(accepted: int | None = None, drafts: int = 4) -> Script:
    """A server that writes as many tokens as it is asked for. accepted: of each draft, where it drafts."""
    script = Script()
    script.stream = lambda body: (200, written(body["max_tokens"], accepted, drafts))
    return script


def written(n: int, accepted: int | None, drafts: int) -> str:
    """A stream of n tokens, in steps of accepted + 1, with what vLLM's detailed metrics tell of them."""
    ids, steps, at = [10, 11, 12, 13, 14, 15, 16], [1], 1
    while at < n:
        steps.append(min(n - at, (accepted or 0) + 1))
        at += steps[-1]
    chunks, at = [], 0
    for length in steps:
        own = [ids[(at + i) % len(ids)] for i in range(length)]
        at += length
        choice = {"text": "".join(WORDS[i] for i in own), "token_ids": own}
        chunks.append({"choices": [choice | {"finish_reason": "length" if at == n else None}]})
    if accepted is not None:
        told = {
            "num_spec_steps": len(steps) - 1,
            "num_draft_tokens": drafts * (len(steps) - 1),
            "num_accepted_draft_tokens": accepted * (len(steps) - 1),
            "num_spec_tokens": drafts,
            "acceptance_histogram": [],
            "per_step_accepted": [accepted] * (len(steps) - 1),
            "per_step_drafted": [drafts] * (len(steps) - 1),
        }
        chunks.append({"choices": [], "metrics": {"speculative_decoding": told}})
    return "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"


class Script:
    """What the server answers. metrics: one text for each scrape, the last stays. stream: a status and a body.

    asked: every request's path and body; keys: what each came with. hangs_up: on so many requests of a path, without a
    word. headers: of every answer. holds: says that more comes, and does not say it.
    """

    def __init__(self, stream: str = "plain.sse", metrics: tuple[str, ...] = ("plain.prom",)) -> None:
        self.url = ""
        self.asked: list[tuple[str, dict]] = []
        self.keys: list[str | None] = []
        self.stream: Callable[[dict], Answer] | Answer = (200, transcript(stream))
        self.metrics = [transcript(name) for name in metrics]
        self.models: Answer = (200, json.dumps({"object": "list", "data": [{"id": "tiny", "max_model_len": 64}]}))
        self.template = True
        self.tokenizer = True
        self.room = 64
        self.words = WORDS
        self.headers: dict[str, str] = {}
        self.health: Answer = (200, "")
        self.hangs_up: dict[str, int] = {}
        self.holds = False
        self.silent = False
        self.cut = False  # says that more comes, and closes
        self.over = threading.Event()  # what a silent server waits for

    def answer(self, path: str, body: dict) -> Answer:
        self.asked.append((path, body))
        if path == "/health":
            return self.health
        if path == "/v1/models":
            return self.models
        if path == "/metrics":
            return (
                (200, self.metrics.pop(0) if len(self.metrics) > 1 else self.metrics[0]) if self.metrics else (404, "")
            )
        if path == "/tokenize" and self.tokenizer:
            if "messages" in body and not self.template:
                return 400, json.dumps({"error": {"message": "no chat template"}})
            return 200, json.dumps({"max_model_len": self.room, "tokens": self.tokens(body)})
        if path == "/detokenize" and self.tokenizer and all(i in self.words for i in body["tokens"]):
            return 200, json.dumps({"prompt": "".join(self.words[i] for i in body["tokens"])})
        if path == "/v1/completions":
            return self.stream(body) if callable(self.stream) else self.stream
        return 404, json.dumps({"detail": "Not Found"})

    def tokens(self, body: dict) -> list[int]:
        ids = {word: i for i, word in WORDS.items()}
        return [ids[body["prompt"]]] if body.get("prompt") in ids else [1, 5, 6]


class Handler(BaseHTTPRequestHandler):
    script: Script

    def do_GET(self) -> None:
        self.serve({})

    def do_POST(self) -> None:
        self.serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def serve(self, body: dict) -> None:
        script = self.script
        script.keys.append(self.headers["Authorization"])
        if script.silent and self.path == "/v1/completions":
            script.over.wait()
            return
        if script.hangs_up.get(self.path, 0):
            script.hangs_up[self.path] -= 1
            script.asked.append((self.path, body))
            return
        status, text = script.answer(self.path, body)
        data = text.encode() if isinstance(text, str) else text
        streams = self.path == "/v1/completions" and status == 200
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        more = 100 if streams and (script.cut or script.holds) else 0
        self.send_header("Content-Length", str(len(data) + more))
        for name, value in script.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        if streams and script.holds:
            script.over.wait()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(script: Script, port: int = 0) -> Iterator[Script]:
    handler = type("Scripted", (Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        script.over.set()
        server.shutdown()
        server.server_close()
