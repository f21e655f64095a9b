"""Who has gone? Whoever works for a visitor is told at once, though Gradio itself looks only when the next value comes.

So a run that waits needs no values in between: with a hundred of them, those that nobody saw were half of what the
server did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradio.context import LocalContext
from gradio.queueing import Queue

RUN = "run"  # the name of a thread that works for a visitor
_stops: dict[str, threading.Event] = {}  # by the event of Gradio's that is worked for, on whatever page


@contextmanager
def told_when_gone(stop: threading.Event) -> Iterator[None]:
    """Within, `stop` is set as soon as the visitor whose event runs here has gone or has cancelled it."""
    event = LocalContext.event_id.get(None)
    if event is not None:
        _stops[event] = stop
    try:
        yield
    finally:
        _stops.pop(event, None)


def listen(queue: Queue) -> None:
    """Hear of it where Gradio does, as a connection closes."""
    clean = queue.clean_events

    async def clean_events(*, session_hash: str | None = None, event_id: str | None = None) -> None:
        for event in [one for job in queue.active_jobs for one in job or ()]:
            if event.session_hash == session_hash or event._id == event_id:
                tell(event._id)
        await clean(session_hash=session_hash, event_id=event_id)

    queue.clean_events = clean_events


def tell(event: str) -> None:
    """Nobody waits any more for what comes of this event."""
    stop = _stops.get(event)
    if stop is not None:
        stop.set()


def dismiss(seconds: float) -> None:
    """The program ends: whoever works for anybody stops, and is given so long to write down what there was."""
    for stop in list(_stops.values()):
        stop.set()
    until = time.monotonic() + seconds
    for thread in threading.enumerate():
        if thread.name == RUN:
            thread.join(max(0.0, until - time.monotonic()))
