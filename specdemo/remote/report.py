"""How is a terminal told of a race over servers? The verdict and the notes of telling.py, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specdemo import terminal
from specdemo.recording import RaceRecord
from specdemo.remote import telling
from specdemo.remote.facts import ARRIVALS, SERVER, Provenance

WORDS = {
    "broken": "A lane's answer is not whole, or its tokens are not counted: no speedup is shown.",
    "none": "No speculation: the server drafted nothing for this request. No speedup is shown.",
    "mixed": "Not like for like, {speedup}: the {here} lane ran on this machine, the other one on {server}.",
    "faster": "{speedup} faster: which tokens were drafted is not known.",
    "slower": "Slower, {speedup}: which tokens were drafted is not known.",
    "equal": "No difference, {speedup}: which tokens were drafted is not known.",
    "told.faster": "{speedup} faster: each step of the server, its draft included, produced {tokens} tokens.",
    "told.slower": "Slower, {speedup}: each step of the server, its draft included, produced {tokens} tokens, and "
    "{needed} are needed to pay for it.",
    "told.equal": "No difference, {speedup}: the server's steps cost what the accepted drafts saved.",
    "clock.arrivals": f"Clock: {ARRIVALS}.",
    "clock.server": f"Clock: {SERVER}.",
    **{one.name.lower(): f"{{lane}} ({{server}}): who wrote each token: {one}." for one in Provenance},
    "settings.note": "{lane} ({server}): its requests had {settings}, those of the other lane did not.",
    "shared": "{lane} ({server}): shared-server figures, of all its requests meanwhile ({others} others ended): "
    "{drafted} drafted, {share} accepted, mean acceptance length {length}, by position {at}.",
    "gathered": "{lane} ({server}): chunks that held several steps: {n}; there were more passes than counted.",
    "retokenised": "{lane} ({server}): gave no token ids; they are its tokenizer's, chunk by chunk, and may be others.",
    "textonly": "{lane} ({server}): gave text without token ids, so that its tokens are not counted.",
    "untemplated": "{lane} ({server}): applied no chat template, and read the plain prompt.",
    "dropped": "{lane} ({server}): does not know, and was not asked for, {what}.",
    "one": "Both lanes ran on one server, one after the other; what each was asked with is what differs.",
    "one.raced": "Both lanes ran on one server, were asked at once and shared it, which slowed both: race them one "
    "after another.",
    "one.baseline": "The baseline drafted, too: give it --baseline-settings that keep its server from drafting.",
    "baseline": "The baseline's server speculates: start it without --speculative-config to compare with plain.",
}
WRITTEN: dict[str, Callable[[Any], str]] = {
    "lane": str.capitalize,
    "speedup": terminal.times,
    "step": lambda seconds: f"{1000 * seconds:.0f} ms",
    "tokens": lambda value: f"{value:.2f}",
    "needed": lambda value: f"{value:.2f}",
    "share": lambda value: "–" if value is None else f"{value:.0%}",
    "length": lambda value: f"{value:.2f}",
    "at": lambda shares: ", ".join(f"{share:.0%}" for share in shares) or "–",
}


def verdict(record: RaceRecord) -> list[str]:
    """The speedup and whether the texts are the same; nothing of drafts where nobody told of them."""
    comparison = record.comparison
    found = telling.verdict(record, comparison, over=True)
    if found is None:
        return terminal.sentences(comparison)
    return [_worded(found)] if telling.broken(record) else [_worded(found), terminal.sameness(comparison)]


def notes(record: RaceRecord) -> list[str]:
    """What has to be known of the figures."""
    return [_worded(one) for one in telling.notes(record)]


def _worded(fact: telling.Fact) -> str:
    name, values = fact
    return WORDS[name].format(**{one: WRITTEN.get(one, str)(value) for one, value in values.items()})
