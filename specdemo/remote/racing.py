"""Servers of one model: are they there, what do they read, and what came of one request to each?

For the command and the page alike, and for lanes of which one runs on this machine (see mixed.py).
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from specdemo.decoding.steps import DraftLength, Rule, Stop
from specdemo.race import Lane, Mode, Request, check_settings
from specdemo.recording import Known, Settled, Wrote
from specdemo.remote import facts
from specdemo.remote.address import short
from specdemo.remote.endpoint import Endpoint, Messages
from specdemo.remote.faults import RemoteFault
from specdemo.remote.lane import LOOK_SECONDS, Asked, RemoteLane
from specdemo.remote.mixed import LocalLane, MixedPair, refuse_other
from specdemo.remote.options import Servers
from specdemo.remote.settings import Settings

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

AnyLane = RemoteLane | LocalLane


@dataclass(slots=True)
class RemotePair:
    """The servers that were there and serve one model: of both lanes, or of one whose neighbour runs on this machine.

    context: tokens that all hold; None: they do not say. settings: what a lane's requests have for themselves.
    named: the model, if a person named it. target: what a lane on this machine runs.
    """

    endpoints: dict[Lane, Endpoint]
    model: str
    context: int | None
    roots: tuple[str | None, ...] = ()
    settings: dict[Lane, Settings] = field(default_factory=dict)
    named: str | None = None
    target: str | None = None

    @property
    def known(self) -> Known:
        """What can be said before a race."""
        names = {lane: endpoint.name for lane, endpoint in self.endpoints.items()}
        return Known(pair=facts.servers(self.model, names, self.settings), environment=environment())

    def close(self) -> None:
        """Let go of the connections."""
        for endpoint in self.endpoints.values():
            endpoint.close()

    def look_again(self) -> None:
        """Before a run: is what was connected still there? Raises RemoteFault; what is there now is raced next time."""
        model, context, roots = self.model, self.context, self.roots
        self.model, self.context, self.roots = _agreed(self.endpoints, self.named, self.target)
        if self.model != model:
            raise RemoteFault(
                f"The servers serve {short(self.model)} now, not {short(model)}: run again to race that, or start "
                f"them with {short(model)}."
            )
        if self.roots != roots:  # under one name, as --served-model-name gives it
            raise RemoteFault(
                f"The servers have loaded {_listed(self.roots)} as {short(self.model)} now, not {_listed(roots)}: run "
                "again to race that, or start them with what they had."
            )
        if self.context != context:
            now, then = (f"{n:,}" if n else "an unknown number of" for n in (self.context, context))
            raise RemoteFault(
                f"The servers hold {now} tokens now, not {then}: run again with that, or start them with the "
                "--max-model-len that they had."
            )

    def encode(self, messages: Messages, thinking: bool | None = None) -> tuple[int, ...] | None:
        """The prompt's ids, which all servers must agree on; None where they cannot say. Raises RemoteFault."""
        found = [one.encode(self.model, messages, thinking) for one in self.endpoints.values()]
        ids = [tuple(one.tokens) if one else None for one in found]
        if len(set(ids)) > 1:
            raise RemoteFault(
                "The two servers make different tokens of the prompt: start both with the same model and chat template."
            )
        return ids[0]

    def check(self, request: Request) -> Request:
        """See `check`."""
        return check(request)

    def lanes(self, request: Request, prompt: str = "") -> dict[Lane, RemoteLane]:
        """The same for both but for their own settings, ready to run.

        prompt: the text, where nobody can say its ids. Raises RemoteFault.
        """
        return {
            lane: RemoteLane(lane, endpoint, self.asked(request, lane, prompt))
            for lane, endpoint in self.endpoints.items()
        }

    def asked(self, request: Request, lane: Lane, prompt: str = "") -> Asked:
        """What a lane's server is asked, within what both hold; raises RemoteFault."""
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
        own = self.settings.get(lane, {})
        return Asked(self.model, request.prompt_ids or prompt, most, _settings(request) | own, limit, own)


def connect(asked: Servers, target: str | None = None) -> RemotePair:
    """The servers that are named, once they are there and serve the model. Raises RemoteFault."""
    asked.refuse_same()
    endpoints: dict[Lane, Endpoint] = {}
    try:
        for lane, url in ((Lane.BASELINE, asked.baseline), (Lane.SPECULATIVE, asked.speculative)):
            if url is not None:
                endpoints[lane] = Endpoint(url, asked.key, asked.timeout)
        model, context, roots = _agreed(endpoints, asked.model, target)
    except BaseException:
        for endpoint in endpoints.values():
            endpoint.close()
        raise
    return RemotePair(endpoints, model, context, roots, asked.settings, asked.model, target)


def look(asked: Servers) -> None:
    """Raises RemoteFault where a server that is named cannot be raced on, before a model is loaded to run beside it."""
    connect(asked).close()


def mix(asked: Servers, local: Pair) -> MixedPair:
    """The one server that is named beside a pair on this machine of the same model. Raises RemoteFault."""
    return MixedPair(local, connect(asked, local.facts["target"]), asked.here)


def check(request: Request) -> Request:
    """As servers run it: they judge drafts by rejection, and how they draft is theirs. Raises RequestRefused."""
    check_settings(request)
    params = replace(request.params, draft_temperature=None)
    return replace(request, params=params, rule=Rule.REJECTION, gamma=0, draft_length=DraftLength.FIXED)


def race(lanes: dict[Lane, AnyLane], mode: Mode) -> Iterator[Wrote | None]:
    """What arrives, in both lanes at once or in one after the other: see `together`."""
    for group in [list(lanes.values())] if mode is Mode.RACED else [[lane] for lane in lanes.values()]:
        yield from together(group)


def together(lanes: Sequence[AnyLane]) -> Iterator[Wrote | None]:
    """What arrives in lanes that are asked at once; None now and then while nothing does.

    A lane of this machine makes its steps in between, on this thread, so that the model is at rest once this is closed;
    closing lets go of the streams, too. What breaks a remote lane is in its `fault`.
    """
    theirs = [lane for lane in lanes if isinstance(lane, RemoteLane)]
    here = next((lane.run() for lane in lanes if isinstance(lane, LocalLane)), None)
    queue: SimpleQueue[Wrote | BaseException | None] = SimpleQueue()
    for lane in theirs:
        threading.Thread(target=_pump, args=(lane, queue), daemon=True).start()
    going = len(theirs)
    try:
        while going or here is not None:
            try:
                item = queue.get(block=here is None, timeout=LOOK_SECONDS)
            except Empty:
                wrote = None if here is None else next(here, None)
                here = here if wrote is not None else None
                yield wrote
                continue
            if isinstance(item, BaseException):
                raise item
            if item is None:
                going -= 1
            else:
                yield item
    finally:
        if here is not None:
            here.close()
        for lane in theirs:
            lane.stop()


def served(lanes: dict[Lane, AnyLane]) -> dict[Lane, RemoteLane]:
    """Those that run on servers."""
    return {lane: one for lane, one in lanes.items() if isinstance(one, RemoteLane)}


def settle(request: Request, lanes: dict[Lane, AnyLane]) -> Settled:
    """What both lanes left, by the servers' clock where all of them tell it."""
    theirs = served(lanes)
    here = next((one for one in lanes.values() if isinstance(one, LocalLane)), None)
    server_times = all(one.times for one in theirs.values())
    steps = {lane: one.settle(server_times) if lane in theirs else one.written for lane, one in lanes.items()}
    if Lane.SPECULATIVE in theirs:
        request = replace(request, gamma=max((wrote.step.gamma for wrote in steps[Lane.SPECULATIVE]), default=0))
    request = replace(request, prompt_ids=next(iter(theirs.values())).prompt_ids)
    known = Known(pair=facts.facts(theirs, server_times), environment=environment())
    known = known if here is None else facts.mixed(here.known, here.lane, known)
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


def _listed(roots: tuple[str | None, ...]) -> str:
    return " and ".join(short(root or "something unnamed") for root in roots)


def _agreed(
    endpoints: dict[Lane, Endpoint], name: str | None, target: str | None
) -> tuple[str, int | None, tuple[str | None, ...]]:
    """The one model of servers that are alive, the tokens that all hold, what each loaded. Raises RemoteFault."""
    found = [_served(endpoint, name) for endpoint in endpoints.values()]
    if target is not None and name is None:
        refuse_other(target, found[0], next(iter(endpoints.values())).name)
    if found[0].id != found[-1].id:
        raise RemoteFault(
            f"The servers serve {short(found[0].id)} and {short(found[1].id)}: start both with the same model, or "
            "give it one name with --served-model-name."
        )
    context = min((one.max_model_len for one in found if one.max_model_len), default=None)
    return found[0].id, context, tuple(one.root for one in found)


def _served(endpoint: Endpoint, name: str | None) -> Any:
    """The model on this server, if that is alive."""
    endpoint.refuse_dead()
    served = {model.id: model for model in endpoint.models()}
    listed = ", ".join(short(one) for one in list(served)[:8])
    if name is not None and name not in served:
        raise RemoteFault(
            f"The server at {endpoint.name} does not serve {name}: it has {listed}. Start it with that one, or name "
            "another with --model."
        )
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
