"""One lane on this machine, the other on a server: is it the same model, and what does the lane here write?

Two engines on two devices are not like for like: whatever shows a ratio of such lanes says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specdemo.decoding.steps import Rule
from specdemo.race import Lane, Request
from specdemo.race import check as check_here
from specdemo.recording import Known, Wrote, spelled
from specdemo.remote import facts, wire
from specdemo.remote.address import short
from specdemo.remote.faults import RemoteFault

if TYPE_CHECKING:
    from specdemo.models.pair import Pair
    from specdemo.remote.endpoint import Messages
    from specdemo.remote.lane import RemoteLane
    from specdemo.remote.racing import RemotePair


class LocalLane:
    """The lane of a pair on this machine, in a remote one's company. written: what it has made."""

    def __init__(self, pair: Pair, lane: Lane, request: Request) -> None:
        self.lane = lane
        self.pair = pair
        self.written: list[Wrote] = []
        self._request = request

    def run(self) -> Iterator[Wrote]:
        """Step by step, on the thread of who asks; closing it stops the model within one step."""
        from specdemo.models.text import Detokenizer, spelling
        from specdemo.race import race

        tokenizer = self.pair.tokenizer
        steps = race(self.pair, self._request, only=self.lane)
        for wrote in spelled(steps, lambda: Detokenizer(tokenizer), lambda one: spelling(tokenizer, one)):
            self.written.append(wrote)
            yield wrote

    @property
    def known(self) -> Known:
        """Of this lane. A baseline here has no drafter; what was promised of two lanes here is not said of one."""
        from specdemo.environment import environment

        left_out = {"promise", "equal shapes"}
        if self.lane is Lane.BASELINE:
            left_out |= {name for name in self.pair.facts if name.startswith("draft")}
        pair = {name: value for name, value in self.pair.facts.items() if name not in left_out}
        padding = self.pair.padding if self.lane is Lane.BASELINE else 1.0
        return Known(padding=padding, pair=pair, environment=environment(str(self.pair.target.device)))


@dataclass(frozen=True, slots=True)
class MixedPair:
    """A pair on this machine, of which one lane runs, and the server of the other lane."""

    local: Pair
    server: RemotePair
    here: Lane

    @property
    def known(self) -> Known:
        """What can be said before a race."""
        return facts.mixed(LocalLane(self.local, self.here, Request(())).known, self.here, self.server.known)

    @property
    def context(self) -> int:
        """Tokens that both hold."""
        return min(self.local.context, self.server.context or self.local.context)

    def close(self) -> None:
        """Let go of the connections."""
        self.server.close()

    def encode(self, messages: Messages, thinking: bool | None = None) -> tuple[int, ...]:
        """The prompt's ids by the target's own template, which the server must agree on. Raises RemoteFault."""
        from specdemo.models.text import encode_chat

        try:
            ids = tuple(encode_chat(self.local.tokenizer, messages, thinking))
        except ValueError as error:
            raise RemoteFault(str(error)) from None
        theirs, name = self.server.encode(messages, thinking), self._name
        if theirs is None:
            raise RemoteFault(
                f"The server at {name} cannot say which tokens a prompt has (/tokenize), so that nobody knows whether "
                "it reads the same as the lane here: take a vLLM server."
            )
        if theirs != ids:
            raise RemoteFault(
                f"The server at {name} and the lane here make different tokens of the prompt: take the same model and "
                "chat template for both."
            )
        return ids

    def check(self, request: Request) -> Request:
        """As both run it. Raises RequestRefused.

        A server draws its own tokens: above temperature 0 no rule promises the same words as here, as shared noise
        would.
        """
        from specdemo.remote.racing import check

        check_here(self.local, request)
        if self.here is Lane.BASELINE:
            request = check(request)
        elif request.params.temperature and request.rule is Rule.SHARED_NOISE:
            request = replace(request, rule=Rule.REJECTION)
        room = self.context - len(request.prompt_ids)
        return replace(request, max_new_tokens=max(1, min(request.max_new_tokens, room)), reuse=False)

    def lanes(self, request: Request, prompt: str = "") -> dict[Lane, LocalLane | RemoteLane]:
        """Both, ready to run. Raises RemoteFault."""
        served = self.server.lanes(request)
        return {lane: served.get(lane) or LocalLane(self.local, lane, request) for lane in Lane}

    @property
    def _name(self) -> str:
        return next(iter(self.server.endpoints.values())).name


def refuse_other(target: str, served: wire.Model, name: str) -> None:
    """Raises RemoteFault where the server's model does not bear the target's name. name: the server's."""
    own = target.rstrip("/").rpartition("/")[2].lower()
    theirs = [one.rstrip("/").rpartition("/")[2] for one in (served.id, served.root or "")]
    if not any(own in one.lower() for one in theirs):
        raise RemoteFault(
            f"The server at {name} serves {short(served.id)}, and the lane here runs {target}: start both with the "
            f"same model. If it is the same under another name, say so with --model {short(served.id)}."
        )
