"""A run on the page is read back as what its lanes wrote and what their clocks showed."""

from __future__ import annotations

import pytest

from specdemo.bench.page_client import PageFailed, _last_values, _read_pane
from specdemo.decoding.steps import Origin, Step, Token
from specdemo.race import Lane
from specdemo.ui.panes import PaneStream
from specdemo.ui.worker import Wrote

STEPS = [
    (0.5, Step((Token(7, Origin.TARGET),))),
    (0.7, Step((Token(8, Origin.ACCEPTED), Token(9, Origin.BONUS)))),
    (1.0, Step((Token(5, Origin.TARGET),))),
]


def test_a_pane_gives_the_ids_and_the_clock_after_the_first_step() -> None:
    stream = PaneStream(Lane.SPECULATIVE, run=1)
    for seconds, step in STEPS:
        stream.add(Wrote(Lane.SPECULATIVE, step, ("<b>\n",) * len(step.tokens), ()), seconds)
    sample = _read_pane(stream.value)
    assert (sample.ids, sample.first, sample.passes) == ((7, 8, 9, 5), 1, 2)
    assert (sample.seconds, sample.whole_seconds) == (0.5, 1.0)


def test_a_pane_that_was_never_written_gives_nothing() -> None:
    assert _read_pane(None) is None and _read_pane(PaneStream(Lane.BASELINE, run=1).value) is None


def test_a_stream_is_folded_from_its_first_values_and_what_changed() -> None:
    first = {"msg": "process_generating", "output": {"data": ["a\n", "x"]}}
    then = {"msg": "process_generating", "output": {"data": [[["append", [], "b\n"]], [["replace", [], "y"]]]}}
    assert _last_values([{"msg": "estimation"}, first, then, {"msg": "process_completed", "success": True}]) == [
        "a\nb\n",
        "y",
    ]


def test_what_is_skipped_at_the_end_stays_as_it_was() -> None:
    skip = {"props": {"__type__": "update"}, "__type__": "update"}
    first = {"msg": "process_generating", "output": {"data": [skip, "x"]}}
    then = {"msg": "process_generating", "output": {"data": [[["replace", [], "a"]], [["replace", [], "y"]]]}}
    last = {"msg": "process_generating", "output": {"data": [[["replace", [], skip]], []]}}
    assert _last_values([first, then, last]) == ["a", "y"]


@pytest.mark.parametrize("message", [{"msg": "unexpected_error", "message": "gone"}, {"msg": "queue_full"}])
def test_a_page_that_fails_is_said(message: dict) -> None:
    with pytest.raises(PageFailed):
        _last_values([message])
