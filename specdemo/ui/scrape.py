"""What can Prometheus scrape of this page? Its runs under vLLM's names, so that dashboards made for vLLM show them.

A run counts when it ends. What concerns a draft, and a request as such, is of the speculative lane; what both lanes
have is labelled by lane, on each lane's own clock. /metrics asks for no password: a host switches it on with --metrics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from specdemo.decoding.steps import Stop
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.remote import wire

if TYPE_CHECKING:  # gradio takes seconds
    from specdemo.ui.doors import Message, Receive, Send

MODEL, ENGINE = "model_name", "engine"
FINISHED = {  # vLLM's words
    Stop.EOS: "stop",
    Stop.STOP_STRING: "stop",
    Stop.BUDGET: "length",
    Stop.CONTEXT: "length",
    Stop.STOPPED: "abort",
    Stop.FAULT: "error",
}
FIRST_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
BETWEEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2)


class Counts:
    """The page's own registry. waiting: how many runs have the device or wait for it."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, (MODEL, ENGINE, *labels), registry=self.registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, about, (MODEL, ENGINE, "lane"), registry=self.registry, buckets=buckets)

        self._drafts = counter(wire.DRAFTS, "Steps that drafted.")
        self._drafted = counter(wire.DRAFT_TOKENS, "Drafted tokens.")
        self._accepted = counter(wire.ACCEPTED, "Accepted draft tokens.")
        self._accepted_at = counter(wire.ACCEPTED_PER_POSITION, "Accepted at this position of a draft.", "position")
        self._finished = counter(wire.FINISHED, "Runs that ended.", "finished_reason")
        self._prompt = counter("vllm:prompt_tokens", "Tokens of prompts, of both lanes.")
        self._generated = counter("vllm:generation_tokens", "Generated tokens.", "lane")
        self._first = histogram("vllm:time_to_first_token_seconds", "Time to first token.", FIRST_TOKEN_SECONDS)
        self._between = histogram("vllm:inter_token_latency_seconds", "Of a step after the first.", BETWEEN_SECONDS)
        self._whole = histogram("vllm:e2e_request_latency_seconds", "A lane's own clock.", FIRST_TOKEN_SECONDS)
        self.registry.register(_Line(waiting))

    def add(self, record: RaceRecord, *, failed: bool = False) -> None:
        """Count a run that has ended."""
        model = (record.known.pair.get("target", ""), "0")
        drafted = record.metrics(Lane.SPECULATIVE)
        self._drafts.labels(*model).inc(drafted.steps_that_drafted)
        self._drafted.labels(*model).inc(drafted.drafted)
        self._accepted.labels(*model).inc(drafted.accepted)
        for position, accepted in enumerate(drafted.accepted_per_position):
            self._accepted_at.labels(*model, str(position)).inc(accepted)
        reason = "error" if failed else FINISHED.get(drafted.stop, "abort")
        self._finished.labels(*model, reason).inc()
        self._prompt.labels(*model).inc(len(record.request.prompt_ids))
        for lane in Lane:
            self._add_lane(record, lane, (*model, lane.value))

    def _add_lane(self, record: RaceRecord, lane: Lane, labels: tuple[str, ...]) -> None:
        metrics = record.metrics(lane)
        self._generated.labels(*labels).inc(metrics.told_tokens or 0)
        if metrics.time_to_first_token is not None:
            self._first.labels(*labels).observe(metrics.time_to_first_token)
        between = self._between.labels(*labels)
        for step in record.lanes[lane].steps[1:]:
            if step.seconds is not None:
                between.observe(step.seconds)
        if metrics.steps and metrics.seconds is not None:
            self._whole.labels(*labels).observe(metrics.seconds)

    def text(self) -> bytes:
        """As a scrape reads it."""
        return generate_latest(self.registry)


class _Line(Collector):
    """Whose turn it is, asked for at every scrape."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._waiting = waiting

    def collect(self) -> Iterator[Metric]:
        n = self._waiting()
        for name, about, value in (
            ("vllm:num_requests_running", "Runs that have the device.", min(n, 1)),
            ("vllm:num_requests_waiting", "Runs that wait for it.", max(n - 1, 0)),
        ):
            gauge = GaugeMetricFamily(name, about, labels=(ENGINE,))
            gauge.add_metric(("0",), value)
            yield gauge

    def describe(self) -> Iterable[Metric]:
        return ()  # nothing is asked while it is registered


class Scrape:
    """ASGI middleware that answers /metrics; everything else passes."""

    def __init__(self, app: Callable[..., Awaitable[None]], counts: Counts) -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, or let pass."""
        if scope["type"] != "http" or scope["path"] != wire.METRICS or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        body = self._counts.text()
        sizes = {"content-type": CONTENT_TYPE_LATEST, "content-length": str(len(body))}
        head = [(name.encode(), value.encode()) for name, value in sizes.items()]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body if scope["method"] == "GET" else b""})
