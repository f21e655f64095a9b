"""Which functions does the page run when a lane is on a server? Those of remote/, imported when they are needed.

Both lanes on servers, or one there and the other one on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specdemo.models.pair_options import NGRAM, PairSpec
from specdemo.models.progress import Progress
from specdemo.race import Lane, Request
from specdemo.recording import Settled, Wrote
from specdemo.remote.faults import RemoteFault
from specdemo.remote.options import Servers
from specdemo.remote.settings import text_of
from specdemo.ui.conversation import Conversation
from specdemo.ui.engine import Engine, Fact
from specdemo.ui.own_engine import real_engine
from specdemo.ui.servers import DRAFTS, SAME_MODEL, chosen, offered

if TYPE_CHECKING:
    from specdemo.remote.mixed import MixedPair
    from specdemo.remote.racing import RemotePair

UNTOLD_CONTEXT = 1 << 20  # tokens, where no server tells: it refuses by itself


@dataclass(frozen=True, slots=True)
class MixedSpec:
    """A pair on this machine, of which one lane runs, and the other lane's server."""

    pair: PairSpec
    servers: Servers


def remote_engine() -> Engine:
    """Two servers as an engine; its spec is a Servers, of which a visitor chooses only what the host allowed."""
    return Engine(
        choose=lambda spec, *_: spec,
        load=_load,
        facts=_facts,
        known=lambda pair: pair.known,
        context=lambda pair: pair.context or UNTOLD_CONTEXT,
        encode=_encode,
        check=lambda pair, request: pair.check(request),
        race=_race,
        part=lambda *_: None,
        remote=True,
        theirs=SAME_MODEL | DRAFTS,
        offered=offered,
        at=chosen,
        still=lambda pair: pair.look_again(),
    )


def mixed_engine(here: Lane, own: Engine | None = None) -> Engine:
    """One lane on this machine, the other one on a server; its spec is a MixedSpec. own: what loads the pair here."""
    own = own or real_engine()

    def choose(spec: MixedSpec, drafter: str, precision: str, target_precision: str, *_: str) -> MixedSpec:
        if here is Lane.BASELINE:
            return spec
        return replace(spec, pair=own.choose(spec.pair, drafter, precision, target_precision, "", ""))

    def load(spec: MixedSpec, progress: Progress, before: MixedPair | None) -> MixedPair:
        from specdemo.remote.racing import look, mix

        look(spec.servers)
        asked = replace(spec.pair, drafter=NGRAM, draft_precision=None) if here is Lane.BASELINE else spec.pair
        local = own.load(asked, progress, before.local if before else None)
        pair = mix(spec.servers, local)
        if before is not None:
            before.close()
        return pair

    def facts(pair: MixedPair) -> list[Fact]:
        target, drafter, *_ = own.facts(pair.local)
        (server,) = pair.server.endpoints.values()
        lanes = {"here": f"@{here}", "server": server.name}
        return [target, *([drafter] if here is Lane.SPECULATIVE else []), ("remote.mixed.lanes", lanes)]

    def encode(pair: MixedPair, prompt: str, before: Conversation, thinking: bool | None) -> Sequence[int]:
        if not own.encode(pair.local, prompt, before, thinking):
            return ()
        return pair.encode(before.then(prompt), thinking)

    return replace(
        remote_engine(),
        choose=choose,
        load=load,
        facts=facts,
        encode=encode,
        theirs=SAME_MODEL if here is Lane.SPECULATIVE else SAME_MODEL | DRAFTS,
        offered=lambda spec: offered(spec.servers),
        at=lambda spec, names: replace(spec, servers=chosen(spec.servers, names)),
        still=lambda pair: pair.server.look_again(),
    )


def _load(spec: Servers, progress: Progress, before: RemotePair | None) -> RemotePair:
    from specdemo.remote.racing import connect

    progress(None, f"Asking {spec.baseline} and {spec.speculative} what they serve")
    pair = connect(spec)
    if before is not None:
        before.close()
    return pair


def _facts(pair: RemotePair) -> list[Fact]:
    names = {str(lane): endpoint.name for lane, endpoint in pair.endpoints.items()}
    settings = [
        ("remote.settings", {"lane": f"@{lane}", "settings": text_of(own)}) for lane, own in pair.settings.items()
    ]
    return [pair.model, ("remote.servers", names), *settings, ("remote.sampling", {})]


def _encode(pair: RemotePair, prompt: str, before: Conversation, thinking: bool | None) -> Sequence[int]:
    ids = pair.encode(before.then(prompt), thinking)
    if ids is None:
        one, other = (endpoint.name for endpoint in pair.endpoints.values())
        raise RemoteFault(
            f"The servers at {one} and {other} cannot say "
            "which tokens a prompt has (/tokenize): race them in a terminal, with python -m specdemo remote."
        )
    return ids


def _race(pair: Any, request: Request) -> Iterator[Wrote | Settled | None]:
    """Both lanes, what came of them, and then what broke one, if anything did."""
    from specdemo.remote import racing

    lanes = pair.lanes(request)
    steps = racing.race(lanes, request.mode)
    try:
        yield from steps
    finally:
        steps.close()
    yield racing.settle(request, lanes)
    faults = [one.fault for one in racing.served(lanes).values() if one.fault]
    if faults:
        raise RemoteFault(" ".join(dict.fromkeys(faults)))
