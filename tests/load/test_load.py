"""A crowd and a fuzz in small; `python -m tests.load.visitors` and `python -m tests.load.fuzz` run them in full."""

from __future__ import annotations

import httpx

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


def test_a_client_that_goes_mid_stream_frees_the_device() -> None:
    with served(Synthetic(hold_at=20)) as house:
        call = httpx.post(house.url + "gradio_api/call/v2/stream", json={"prompt": "Tell me"}).json()["event_id"]
        with httpx.stream("GET", f"{house.url}gradio_api/call/stream/{call}", timeout=SECONDS) as answer:
            next(answer.iter_lines())
            assert house.script.held.wait(SECONDS)
        house.script.hold_at = None
        house.script.go.set()
        assert house.script.closed.wait(SECONDS)
        second = house.desk.line.enter()
        assert house.desk.line.wait(second, SECONDS)
        house.desk.line.leave(second)
