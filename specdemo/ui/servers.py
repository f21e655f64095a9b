"""What of lanes on servers may a visitor set? What is not the servers' own, and servers that the host allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specdemo.race import Lane
from specdemo.remote.options import Servers

SAME_MODEL = frozenset(("target_model", "hub_token"))  # a lane here must have the server's model
DRAFTS = frozenset(
    (
        "gamma",
        "draft_length",
        "rule",
        "draft_temperature",
        "target_precision",
        "drafter",
        "draft_model",
        "draft_precision",
    )
)  # set where a server is started
SETTINGS = {"baseline_server": Lane.BASELINE, "speculative_server": Lane.SPECULATIVE}


def offered(spec: Servers) -> dict[str, tuple[str, ...]]:
    """The addresses that each lane may have, by setting, its own first; none where the host allowed no others."""
    if not spec.allowed:
        return {}
    own = {name: getattr(spec, lane.value) for name, lane in SETTINGS.items()}
    named = {name: url for name, url in own.items() if url is not None}
    return {name: tuple(dict.fromkeys((url, *named.values(), *spec.allowed))) for name, url in named.items()}


def chosen(spec: Servers, names: Mapping[str, str]) -> Servers:
    """The servers with those that Settings name; what is not offered changes nothing."""
    known = offered(spec)
    picked = {SETTINGS[name].value: url for name, url in names.items() if url in known.get(name, ())}
    return replace(spec, **picked)
