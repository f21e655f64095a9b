"""How does a run stand at this moment? Takes a worker's events and gives the values of the page's outputs.

Panes follow every step; figures and charts at most four times a second. The values only change when there is
something to say, so that a quiet run sends nothing.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Collection
from typing import Any

from specdemo.decoding.steps import Stop
from specdemo.metrics import Comparison, LaneMetrics
from specdemo.race import Lane
from specdemo.recording import Settled, Wrote
from specdemo.ui import advice, figures, scoreboard
from specdemo.ui.charts import chart_figures
from specdemo.ui.panes import PaneStream
from specdemo.ui.parts import encode
from specdemo.ui.report import replayed, row
from specdemo.ui.runs import Run
from specdemo.ui.text import Sentence
from specdemo.ui.worker import Began, Ended, Event, Loading, Paced, Refused, Waiting

FIGURES_EVERY = 0.25  # seconds
PARTING_TOKENS = 14  # shown of each continuation where the texts part
OTHER = {Lane.BASELINE: Lane.SPECULATIVE, Lane.SPECULATIVE: Lane.BASELINE}


class Show:
    """A run as the page shows it. begun: there is something of it to show. over: nothing more will come.

    replay_of: the number of the finished run that plays again. drafters: what Settings offer for its target.
    """

    def __init__(self, run: Run, *, replay_of: int | None = None, drafters: Collection[str] = ()) -> None:
        self.run = run
        self.record = run.record
        self._replay_of = replay_of
        self._drafters = drafters
        self._replay_speed = 1.0
        self.over = False
        self.begun = False
        self._state = "starting"
        self._message = scoreboard.message("starting")
        self._stopped = False
        self._why: Sentence | None = None
        self._panes = {lane: PaneStream(lane, run.number) for lane in Lane}
        self._board = self._encoded()
        self._drawn = 0.0
        self._stale = False

    def take(self, events: list[Event]) -> None:
        """Fold in what happened."""
        for event in events:
            self._take(event)
        now = time.monotonic()
        if self._stale and (self.over or now - self._drawn >= FIGURES_EVERY):
            self._board, self._drawn, self._stale = self._encoded(), now, False

    @property
    def refused(self) -> bool:
        """Whether it ended because it cannot be had, or failed on the way."""
        return self._state == "refused"

    @property
    def values(self) -> tuple[str | None, str | None, str]:
        """Of the baseline's pane, the speculative pane and the scoreboard. None: what stands in the pane stays."""
        if not self.begun:  # a run that is refused, or waits, takes nothing away
            return None, None, self._board
        return self._panes[Lane.BASELINE].value, self._panes[Lane.SPECULATIVE].value, self._board

    def _take(self, event: Event) -> None:
        if not isinstance(event, Wrote):
            self._drawn = 0.0  # a turn of the run is shown at once
        self._stale = True
        match event:
            case Wrote():
                self._wrote(event)
            case Waiting(before, seconds) if seconds is None:
                self._say("waiting", "waiting" if before == 1 else "waiting.place", n=str(before))
            case Waiting(before, seconds):
                self._say("waiting", "waiting.seconds", n=str(before), seconds=str(seconds))
            case Loading(message):
                self._say("loading", "loading.run", message=message)
            case Began(request, known):
                self.record.request, self.record.known, self.begun = request, known, True
                self._say("starting", "starting")
            case Settled():
                self.record.settle(event)
                self._panes = {lane: PaneStream(lane, self.run.number, settled=True) for lane in Lane}
                for lane, recording in self.record.lanes.items():
                    for wrote, (clock, _) in zip(recording.written, recording.points, strict=True):
                        self._panes[lane].add(wrote, clock)
            case Paced(speed):
                self._replay_speed = speed
            case Refused(key, params):
                self._say("refused", key, **params)
                self.over = True
            case Ended(stopped, parting, why):
                self._state, self._stopped, self.record.parting = "stopped" if stopped else "done", stopped, parting
                self._why, self.over = why, True
                if stopped:
                    for lane in self.record.lanes.values():
                        lane.stop()

    def _say(self, state: str, key: str, **params: str) -> None:
        self._state, self._message = state, scoreboard.message(key, **params)

    def _wrote(self, wrote: Wrote) -> None:
        self._state = "running"
        self.record.add(wrote)
        self._panes[wrote.lane].add(wrote, self.record.metrics(wrote.lane).seconds)

    def _encoded(self) -> str:
        board: dict[str, Any] = {"run": self.run.number, "state": self._state, "running": not self.over}
        written = any(lane.written for lane in self.record.lanes.values())
        if not written or self._state in ("waiting", "loading", "refused"):
            board |= self._message if self._state != "stopped" else scoreboard.message("verdict.nothing")
        if written:
            board |= self._account()
        if written and self.refused:  # it failed on the way: what it wrote stays, but it proves nothing
            board |= self._message | {"speed": None, "speedNote": None, "more": []}
        return encode(board)

    def _account(self) -> dict[str, Any]:
        comparison = self.record.comparison
        board = scoreboard.account(self.record, comparison, over=self.over, stopped=self._stopped)
        if self._why is not None:
            board["more"].append(self._why)
        board["lanes"] = {lane: self._head(lane) for lane in Lane}
        board["chart"] = chart_figures(self.record, comparison)
        board["parting"] = self._continuations(comparison)
        if self._replay_of is not None:
            board |= replayed(board, self.record, self._replay_of, self._replay_speed)
        elif self.over and not self.refused:
            board["row"] = row(self.run)
            if not self._stopped:
                board["more"] += advice.reasons(self.record, comparison)
                board["try"] = advice.attempts(self.record, comparison, self._drafters)
        return board

    def _continuations(self, comparison: Comparison) -> dict[str, Any] | None:
        """Where the texts part, and what each lane wrote from there."""
        at = comparison.first_difference
        if at is None or not comparison.identity_promised:
            return None
        return {"at": at} | {
            name: "".join(lane.texts[at : at + PARTING_TOKENS]) for name, lane in self.record.lanes.items()
        }

    def _head(self, name: Lane) -> dict[str, Any]:
        """The figures over a pane's text."""
        lane, other = self.record.metrics(name), self.record.metrics(OTHER[name])
        ended, other_ended = _ended(lane), _ended(other)
        done = ended or self.over
        whole = max(lane.tokens, other.tokens) if ended and other_ended else self._expected()
        notch = self._tokens_at(name, other.seconds) if other_ended and not self._stopped else None
        return {
            "rate": "–" if lane.tokens_per_second is None else figures.rate(lane.tokens_per_second),
            "first": None if lane.time_to_first_token is None else figures.milliseconds(lane.time_to_first_token),
            "tokens": figures.count(lane.told_tokens),
            "clock": figures.clock(lane.seconds or 0),
            "done": done,
            "progress": 1.0 if ended and not self._stopped else round(min(1.0, lane.tokens / max(whole, 1)), 4),
            "notch": None if notch is None else round(notch / max(lane.tokens if done else whole, 1), 4),
            "note": self._note(lane, other, notch),
            "end": lane.stop,
        }

    def _expected(self) -> int:
        """Tokens that a lane will write: as many as one that has ended, else as many as it may."""
        lanes = [self.record.metrics(lane) for lane in Lane]
        return max((lane.tokens for lane in lanes if _ended(lane)), default=self.record.request.max_new_tokens)

    def _tokens_at(self, name: Lane, seconds: float | None) -> int | None:
        """How many tokens this lane had when its clock showed so much; None when it had ended before."""
        points = self.record.lanes[name].points
        if seconds is None or not points or points[-1][0] <= seconds:
            return None
        index = bisect.bisect_right(points, (seconds, 1 << 62))
        return points[index - 1][1] if index else 0

    def _note(self, lane: LaneMetrics, other: LaneMetrics, notch: int | None) -> Sentence | None:
        if self._stopped or not lane.steps or not other.steps or None in (lane.told_tokens, other.told_tokens):
            return None
        if notch is not None:
            return ("pane.notch", {"n": str(notch)})
        if _ended(lane) and _ended(other):
            return ("pane.earlier", {"seconds": figures.clock((other.seconds or 0) - (lane.seconds or 0))})
        behind = other.tokens - lane.tokens
        return ("pane.behind", {"n": str(behind)}) if behind > 0 and not _ended(lane) else None


def _ended(lane: LaneMetrics) -> bool:
    """Whether it ended by itself, its answer whole."""
    return lane.stop not in (None, Stop.STOPPED, Stop.FAULT)
