"""A crowd and a fuzz in small; `python -m tests.load.visitors` and `python -m tests.load.fuzz` run them in full."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from specdemo.ui import api
from tests.load.fuzz import fuzz
from tests.load.visitors import visit
from tests.ui.served import served
from tests.ui.synthetic import Synthetic

SECONDS = 20


def test_of_many_visitors_none_is_lost_and_none_gets_anothers_text() -> None:
    tally = visit(visitors=20, runs=30)
    assert tally.lost == [] and tally.mixed == []
    assert (tally.answered, tally.left) == (27, 3)


def test_whatever_is_sent_gets_an_answer_that_is_a_sentence() -> None:
    findings = fuzz(200, seed=1)
    assert findings.wrong == []
    assert findings.statuses.total() == 200 and findings.ends["complete"] >= 5 and findings.ends["error"] >= 20
    assert findings.chosen <= {"ngram", "embedded", "ngram+embedded"}


@pytest.mark.parametrize(("name", "cancels"), [("compare", False), ("stream", True)])
def test_who_goes_or_cancels_frees_the_place_in_the_line_and_the_device_though_no_value_would_come(
    name: str, cancels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "HEARTBEAT_SECONDS", 3600.0)

    with served(Synthetic(hold_at=20, pace=1.0)) as house:
        (number,) = (key for key, fn in house.page.blocks.fns.items() if fn.api_name == name)

        @contextmanager
        def calling() -> Iterator[None]:
            call = httpx.post(f"{house.url}gradio_api/call/v2/{name}", json={"prompt": "Tell me"}).json()["event_id"]
            with httpx.stream("GET", f"{house.url}gradio_api/call/{name}/{call}", timeout=SECONDS) as answer:
                lines = answer.iter_lines()  # dropped, it would close the connection
                next(lines)
                yield
                if cancels:
                    told = {"session_hash": call, "event_id": call, "fn_index": number}
                    httpx.post(f"{house.url}gradio_api/cancel", json=told, timeout=SECONDS).raise_for_status()

        with calling():
            assert house.script.held.wait(SECONDS)
            with calling():
                wait_for(lambda: len(house.desk.line) == 2)
            wait_for(lambda: len(house.desk.line) == 1)
            house.script.hold_at = None
            if cancels:  # which waits for the step under way
                house.script.go.set()
        house.script.go.set()
        assert house.script.closed.wait(SECONDS)
        wait_for(lambda: len(house.desk.line) == 0)
        assert len(house.script.steps) < 100, "it was not run to its end"


def wait_for(happened: Callable[[], bool]) -> None:
    """Until it has; the line tells nobody who is not in it."""
    until = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)
