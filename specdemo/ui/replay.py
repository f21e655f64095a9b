"""How does a finished race play again? From its recorded times, at the speed asked for, as the events of a worker.

Nothing is computed: the steps, the texts and the clock are those of the record. A page that has nothing but recorded
runs needs no model, and its desk lends nothing.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from specdemo import trace_files
from specdemo.decoding.steps import UNTOLD, Step, Stop
from specdemo.race import MAX_GAMMA, MAX_NEW_TOKENS, Lane, Mode, RequestRefused, check_settings
from specdemo.recording import Known, RaceRecord, Wrote
from specdemo.trace_files import RaceFile, TraceFileRefused
from specdemo.ui.desk import Loaded, Status
from specdemo.ui.line import Line
from specdemo.ui.visitors import OWN
from specdemo.ui.worker import Began, Ended, Event, Paced

log = logging.getLogger(__name__)

SPEEDS = (1.0, 0.5, 0.25)
FOLDER = Path(__file__).parents[2] / "assets" / "runs"
LARGEST = 8 * 1024 * 1024  # bytes of a file that a visitor brings: ten times a race of a thousand tokens a lane
LARGEST_ID = 1 << 31
LONGEST = 3600.0  # seconds on a lane's clock
SHORTEST = 1e-9  # seconds of a part of a step that took any: a clock tells no less, and a rate stays a number
PADDED = (0.01, 100.0)  # plain steps that a padded one may cost


def recorded_runs(folder: Path = FOLDER) -> list[RaceRecord]:
    """The runs that came with the program, by file name. One that cannot be read is logged: the page stands without."""
    runs = []
    for path in sorted(folder.glob("*.json")):
        try:
            runs.append(read(path.read_bytes()))
        except (OSError, TraceFileRefused) as error:
            log.warning("The recorded run %s is left out. %s", path.name, error)
    return runs


def read(data: bytes | str) -> RaceRecord:
    """The race in a file, if it can be shown and replayed here. Raises TraceFileRefused with a sentence."""
    if len(data) > LARGEST:
        raise TraceFileRefused(f"The file is larger than {LARGEST >> 20} MiB, which no race on this page is.")
    race = trace_files.parse(data)
    for lane in Lane:
        _refuse_lane(lane, race)
    try:
        check_settings(race.request)
    except RequestRefused as error:
        raise TraceFileRefused(f"The file holds settings that no race has. {error}") from None
    if race.baseline.prompt_ids != race.speculative.prompt_ids or race.baseline.params != race.speculative.params:
        raise TraceFileRefused("The file's two lanes were not asked the same: prompt or sampling differ.")
    if race.parting is not None and not 0 <= (race.parting.gap or 0) < math.inf:
        raise TraceFileRefused("At parting.gap: the distance of two logits must be a number.")
    if not PADDED[0] <= race.padding <= PADDED[1]:
        raise TraceFileRefused(f"At padding: a padded step costs {PADDED[0]:g} to {PADDED[1]:g} plain ones.")
    return RaceRecord.of(race)


def _refuse_lane(lane: Lane, race: RaceFile) -> None:
    trace = getattr(race, lane)
    untold = Known(pair=trace.pair).remote
    if not trace.tokens:
        raise TraceFileRefused(f"At {lane}.steps: the lane wrote nothing, so there is nothing to replay.")
    if len(trace.tokens) > MAX_NEW_TOKENS:
        raise TraceFileRefused(f"At {lane}.steps: {len(trace.tokens):,} tokens; a lane here writes {MAX_NEW_TOKENS:,}.")
    for number, step in enumerate(trace.steps):
        place = f"{lane}.steps[{number}]"
        if len(step.drafted) > MAX_GAMMA or not 0 <= step.gamma <= MAX_GAMMA:
            raise TraceFileRefused(f"At {place}: a step drafts at most {MAX_GAMMA} tokens.")
        times = (step.draft_seconds, step.verify_seconds, step.other_seconds)
        if any(time is None or not 0 <= time <= LONGEST for time in times):
            raise TraceFileRefused(f"At {place}: the step does not tell its times, so the race has no speed.")
        if any(0 < time < SHORTEST for time in times):
            raise TraceFileRefused(f"At {place}: a time of less than a nanosecond, which no clock here tells.")
        if not all(0 <= one < LARGEST_ID for one in _ids(step, untold)):
            raise TraceFileRefused(f"At {place}: an id that no vocabulary has.")
        if not all(number is None or 0 <= number < math.inf for number in _numbers(step)):
            raise TraceFileRefused(f"At {place}: a probability that is no number, or is negative.")
    if sum(step.seconds for step in trace.steps) > LONGEST:
        raise TraceFileRefused(f"At {lane}.steps: the lane took longer than {LONGEST:.0f} seconds.")


def _ids(step: Step, untold: bool) -> Iterator[int]:
    """untold: a token may have no id, as a server does not tell it."""
    told = (one.id for one in (*step.tokens, *step.drafted) if not (untold and one.id == UNTOLD))
    yield from told
    yield from (token_id for token_id, _ in step.residual_top)


def _numbers(step: Step) -> Iterator[float | None]:
    yield step.residual_mass
    yield from (p for _, p in step.residual_top)
    for token in step.tokens:
        yield from (token.p, token.q, token.p_raw)
    for drafted in step.drafted:
        yield from (drafted.p, drafted.q, drafted.draw, drafted.chance)


class Player:
    """Plays a record as a Worker plays a race: `drain` gives what happened since, the last event is Ended.

    stop: set it to end the replay. shown: set by whoever drains. speed may be changed while it plays.
    """

    def __init__(self, record: RaceRecord, speed: float = 1.0) -> None:
        self.record = record
        self.speed = speed
        self.stop = threading.Event()
        self.shown = threading.Event()
        self._due = _due(record)
        self._next = 0
        self._clock = 0.0  # seconds of the recorded race
        self._told: float | None = None  # the speed last told
        self._looked = 0.0

    def start(self) -> Player:
        """Begin; no thread is needed."""
        self._looked = time.monotonic()
        return self

    def drain(self, seconds: float) -> list[Event]:
        """Everything that happens within so many seconds; at once what begins and what ends it."""
        events: list[Event] = []
        if self._told is None:
            events.append(Began(self.record.request, self.record.known))
        elif self._next < len(self._due):
            self.stop.wait(seconds)
        if self._told != self.speed:
            self._told = self.speed
            events.append(Paced(self.speed))
        now = time.monotonic()
        self._clock += (now - self._looked) * self.speed
        self._looked = now
        while not self.stop.is_set() and self._next < len(self._due) and self._due[self._next][0] <= self._clock:
            events.append(self._due[self._next][1])
            self._next += 1
        if self.stop.is_set():
            events.append(Ended(stopped=True))
        elif self._next == len(self._due):
            ended = all(lane.metrics.stop not in (None, Stop.STOPPED) for lane in self.record.lanes.values())
            events.append(Ended(not ended, self.record.parting))
        return events


def _due(record: RaceRecord) -> list[tuple[float, Wrote]]:
    """What each lane wrote, at the time of its own clock, in the order in which it is to be shown."""
    due: list[tuple[float, Wrote]] = []
    begin = 0.0
    for recording in record.lanes.values():
        clock = begin
        for wrote in recording.written:
            clock += wrote.step.seconds or 0.0
            due.append((clock, wrote))
        if record.request.mode is Mode.ONE_AFTER_ANOTHER:
            begin = clock
    return sorted(due, key=lambda one: one[0])


class ClosedDesk:
    """The desk of a page that only replays: it has no engine and says so."""

    status = Status(state=Loaded.READY, facts=(("replay.only", {}),))
    engine = None
    rules = OWN
    line = Line(0)

    def open(self) -> None:
        """There is nothing to load."""

    def watch(self, seen: int, seconds: float) -> Status:
        """It never changes."""
        return self.status
