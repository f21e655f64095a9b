"""Two servers of one model: are they there, what do both read, and what came of one request to each?

For the command and the page alike.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any

from specdemo.decoding.steps import DraftLength, Rule, Stop
from specdemo.race import Lane, Mode, Request, check_settings
from specdemo.recording import Known, Settled, Wrote
from specdemo.remote import facts
from specdemo.remote.endpoint import Endpoint, Messages
from specdemo.remote.faults import RemoteFault
from specdemo.remote.lane import Asked, RemoteLane
from specdemo.remote.options import Servers

LOOK_SECONDS = 0.1  # between two looks of who awaits an arrival


@dataclass(frozen=True, slots=True)
class RemotePair:
    """Two servers that were there and serve the same model. context: tokens that both hold; None: they do not say."""

    endpoints: dict[Lane, Endpoint]
    model: str
    context: int | None

    @property
    def known(self) -> Known:
        """What can be said before a race."""
        names = {lane: endpoint.name for lane, endpoint in self.endpoints.items()}
        return Known(pair=facts.servers(self.model, names), environment=environment())

    def close(self) -> None:
        """Let go of the connections."""
        for endpoint in self.endpoints.values():
            endpoint.close()

    def encode(self, messages: Messages, thinking: bool | None = None) -> tuple[int, ...] | None:
        """The prompt's ids, which both servers must agree on; None where they cannot say. Raises RemoteFault."""
        baseline, other = (one.encode(self.model, messages, thinking) for one in self.endpoints.values())
        if (baseline and baseline.tokens) != (other and other.tokens):
            raise RemoteFault(
                "The two servers make different tokens of the prompt: start both with the same model and chat template."
            )
        return tuple(baseline.tokens) if baseline else None

    def lanes(self, request: Request, prompt: str = "") -> dict[Lane, RemoteLane]:
        """The same for both, ready to run. prompt: the text, where nobody can say its ids. Raises RemoteFault."""
        n, most, limit = len(request.prompt_ids), request.max_new_tokens, Stop.BUDGET
        if n and self.context:
            room = self.context - n
            if room < 1:
                raise RemoteFault(
                    f"The prompt takes {n:,} tokens, and the servers hold {self.context:,}, the answer included: "
                    "shorten it, or start them with a larger --max-model-len."
                )
            if room < most:
                most, limit = room, Stop.CONTEXT
        asked = Asked(self.model, request.prompt_ids or prompt, most, _settings(request), limit)
        return {lane: RemoteLane(lane, endpoint, asked) for lane, endpoint in self.endpoints.items()}


def connect(asked: Servers) -> RemotePair:
    """Both servers, once they are there and serve the model. Raises RemoteFault."""
    endpoints: dict[Lane, Endpoint] = {}
    try:
        for lane, url in ((Lane.BASELINE, asked.baseline), (Lane.SPECULATIVE, asked.speculative)):
            endpoints[lane] = Endpoint(url, asked.key, asked.timeout)
        found = [_served(endpoint, asked.model) for endpoint in endpoints.values()]
        if found[0].id != found[1].id:
            raise RemoteFault(
                f"The servers serve {found[0].id} and {found[1].id}: start both with the same model, or give it one "
                "name with --served-model-name."
            )
    except BaseException:
        for endpoint in endpoints.values():
            endpoint.close()
        raise
    return RemotePair(
        endpoints, found[0].id, min((one.max_model_len for one in found if one.max_model_len), default=None)
    )


def check(request: Request) -> Request:
    """As servers run it: they judge drafts by rejection, and how they draft is theirs. Raises RequestRefused."""
    check_settings(request)
    params = replace(request.params, draft_temperature=None)
    return replace(request, params=params, rule=Rule.REJECTION, gamma=0, draft_length=DraftLength.FIXED)


def race(lanes: dict[Lane, RemoteLane], mode: Mode) -> Iterator[Wrote | None]:
    """What arrives, in both lanes at once or in one after the other; None now and then while nothing does.

    Closing it lets go of both streams. What breaks a lane is in its `fault`.
    """
    for group in [list(lanes.values())] if mode is Mode.RACED else [[lane] for lane in lanes.values()]:
        queue: SimpleQueue[Wrote | BaseException | None] = SimpleQueue()
        for lane in group:
            threading.Thread(target=_pump, args=(lane, queue), daemon=True).start()
        going = len(group)
        try:
            while going:
                try:
                    item = queue.get(timeout=LOOK_SECONDS)
                except Empty:
                    yield None
                    continue
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    going -= 1
                else:
                    yield item
        finally:
            for lane in group:
                lane.stop()


def settle(request: Request, lanes: dict[Lane, RemoteLane]) -> Settled:
    """What both lanes left, by the servers' clock where both tell it."""
    server_times = all(lane.times for lane in lanes.values())
    steps = {lane: one.settle(server_times) for lane, one in lanes.items()}
    longest = max((wrote.step.gamma for wrote in steps[Lane.SPECULATIVE]), default=0)
    request = replace(request, prompt_ids=lanes[Lane.SPECULATIVE].prompt_ids, gamma=longest)
    known = Known(pair=facts.facts(lanes, server_times), environment=environment())
    return Settled(request, known, tuple(wrote for one in steps.values() for wrote in one))


def environment() -> dict[str, str]:
    """This side of the network; of the other one nothing is told."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": "servers",
        "python": platform.python_version(),
        "openai": version("openai"),
    }


def said(prompt: str) -> Messages:
    """A prompt that nothing was said before."""
    return [{"role": "user", "content": prompt}]


def _pump(lane: RemoteLane, queue: SimpleQueue) -> None:
    try:
        for wrote in lane.run():
            queue.put(wrote)
    except BaseException as error:  # raised where the race is
        queue.put(error)
    finally:
        queue.put(None)


def _served(endpoint: Endpoint, name: str | None) -> Any:
    """The model on this server."""
    served = {model.id: model for model in endpoint.models()}
    listed = ", ".join(list(served)[:8])
    if name is not None and name not in served:
        raise RemoteFault(f"The server at {endpoint.name} does not serve {name}: it has {listed}.")
    if name is None and len(served) > 1:
        raise RemoteFault(f"The server at {endpoint.name} serves {listed}: choose one with --model.")
    return served[name] if name else next(iter(served.values()))


def _settings(request: Request) -> dict[str, object]:
    """Sampling by the names on the wire; what is off is not sent, so that a server without it is no hindrance."""
    params = request.params
    settings: dict[str, object] = {"temperature": params.temperature, "seed": params.seed}
    for name, off in (("top_k", 0), ("top_p", 1), ("min_p", 0), ("repetition_penalty", 1)):
        if getattr(params, name) != off:
            settings[name] = getattr(params, name)
    if request.stop_strings:
        settings["stop"] = list(request.stop_strings)
    return settings
