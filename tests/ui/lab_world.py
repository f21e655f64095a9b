"""The scripted page over a world of the lab's tests: experiments run on it, and its forwards can be held."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from specdemo.lab.experiment import Row
from specdemo.lab.options import options_of, plain
from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.result import Result
from specdemo.recording import Known
from specdemo.ui.engine import Engine
from tests.lab.worlds import World
from tests.ui.synthetic import MACHINE, Synthetic


@dataclass
class Held(World):
    """hold_at: the forward of the target before which it waits for `go`."""

    hold_at: int | None = None
    held: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.v = self._held

    def _held(self, drafts: int) -> float:
        if self.steps == self.hold_at:
            self.held.set()
            self.go.wait(30)
        return 1.0


def world_engine(world: World | None = None) -> Engine:
    """The scripted engine, whose pair is a world."""
    world = world or Held()
    known = Known(True, 1.0, world.facts, MACHINE)
    return replace(
        Synthetic().engine(),
        load=lambda spec, progress, before: world,
        facts=lambda pair: ["certain", "chosen", "fp32", "no device"],
        known=lambda pair: known,
        context=lambda pair: pair.context,
    )


def answered(*texts: tuple[str, str]) -> Result:
    """A result of the quality experiment whose pairs of answers have these texts, plain and drafted."""
    quality = EXPERIMENTS["quality"]
    options = options_of(quality.options, {"kinds": "chat", "per_kind": f"{len(texts)}", "temperature": "1"})
    rows = [cell | _answers(*both) for cell, both in zip(quality.cells(options), texts, strict=True)]
    made = Result(experiment="quality", options=plain(options), pair={}, environment={}, cells=len(rows), rows=rows)
    return made.model_copy(update={"findings": quality.findings(rows)})


def _answers(one: str, other: str) -> Row:
    """As the experiment would have measured them, a token for each character."""
    row: Row = {"promised": False, "texts": None, "same": one == other, "first difference": None}
    for side, text in (("plain", one), ("drafted", other)):
        row |= {f"{side} tokens": len(text), f"{side} nats": float(len(text)), f"{side} text": text}
        row |= {f"{side} ids": " ".join(str(ord(character)) for character in text), f"{side} ROUGE-L": None}
    return row | {"ROUGE-L": float(one == other), "similarity": None, "reference": ""}
