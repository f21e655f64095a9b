"""Which functions does the page run when its lanes are two servers? Those of remote/, imported when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specdemo.models.progress import Progress
from specdemo.race import Request
from specdemo.recording import Settled, Wrote
from specdemo.remote.faults import RemoteFault
from specdemo.remote.options import Servers
from specdemo.ui.conversation import Conversation
from specdemo.ui.engine import Engine, Fact

if TYPE_CHECKING:
    from specdemo.remote.racing import RemotePair

UNTOLD_CONTEXT = 1 << 20  # tokens, where no server tells: it refuses by itself


def remote_engine() -> Engine:
    """Two servers as an engine; its spec is a Servers, which no visitor can change."""
    return Engine(
        choose=lambda spec, *_: spec,
        load=_load,
        facts=_facts,
        known=lambda pair: pair.known,
        context=lambda pair: pair.context or UNTOLD_CONTEXT,
        encode=_encode,
        check=_check,
        race=_race,
        part=lambda *_: None,
        remote=True,
    )


def _load(spec: Servers, progress: Progress, before: RemotePair | None) -> RemotePair:
    from specdemo.remote.racing import connect

    progress(None, f"Asking {spec.baseline} and {spec.speculative} what they serve")
    return connect(spec)


def _facts(pair: RemotePair) -> list[Fact]:
    names = {str(lane): endpoint.name for lane, endpoint in pair.endpoints.items()}
    return [pair.model, ("remote.servers", names), ("remote.sampling", {})]


def _encode(pair: RemotePair, prompt: str, before: Conversation, thinking: bool | None) -> Sequence[int]:
    ids = pair.encode([*before.messages, {"role": "user", "content": prompt}], thinking)
    if ids is None:
        one, other = (endpoint.name for endpoint in pair.endpoints.values())
        raise RemoteFault(
            f"The servers at {one} and {other} cannot say "
            "which tokens a prompt has (/tokenize): race them in a terminal, with python -m specdemo remote."
        )
    return ids


def _check(pair: RemotePair, request: Request) -> Request:
    from specdemo.remote.racing import check

    return check(request)


def _race(pair: RemotePair, request: Request) -> Iterator[Wrote | Settled | None]:
    """Both lanes, what came of them, and then what broke one, if anything did."""
    from specdemo.remote import racing

    lanes = pair.lanes(request)
    steps = racing.race(lanes, request.mode)
    try:
        yield from steps
    finally:
        steps.close()
    yield racing.settle(request, lanes)
    faults = list(dict.fromkeys(one.fault for one in lanes.values() if one.fault))
    if faults:
        raise RemoteFault(" ".join(faults))
