"""The scripted page over a world of the lab's tests: experiments run on it, and its forwards can be held."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

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
