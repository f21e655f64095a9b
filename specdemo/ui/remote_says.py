"""How is the page told of lanes on servers? The verdict and the notes of remote/telling.py, as sentences of ui.text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specdemo.metrics import Comparison
from specdemo.recording import Known, RaceRecord
from specdemo.remote import telling
from specdemo.ui import figures
from specdemo.ui.text import Sentence

WRITTEN: dict[str, Callable[[Any], str]] = {
    "lane": lambda lane: f"@{lane}",
    "here": lambda lane: f"@{lane}",
    "speedup": figures.times,
    "step": figures.milliseconds,
    "tokens": lambda value: f"{value:.2f}",
    "needed": lambda value: f"{value:.2f}",
    "drafted": lambda n: f"{n:,}",
    "others": lambda n: f"{n:,}",
    "share": lambda value: "–" if value is None else figures.share(value),
    "length": lambda value: f"{value:.2f}",
    "at": lambda shares: ", ".join(map(figures.share, shares)) or "–",
}


def verdict(record: RaceRecord, comparison: Comparison, *, over: bool) -> Sentence | None:
    """In place of the sentence that tells drafting from verifying; None where that sentence is not about it."""
    found = telling.verdict(record, comparison, over=over)
    return found and _worded(found)


def more(record: RaceRecord) -> list[Sentence]:
    """Once it is over."""
    return [_worded(one) for one in telling.notes(record)]


def clocks(known: Known) -> str:
    """The key of the note on how the lanes share time."""
    return "remote.mixed.clocks" if known.here else "remote.clocks" if known.remote else "clocks"


def _worded(fact: telling.Fact) -> Sentence:
    name, values = fact
    return f"remote.{name}", {one: WRITTEN.get(one, str)(value) for one, value in values.items()}
