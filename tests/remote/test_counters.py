"""A scrape to counters, and what was counted between two."""

from __future__ import annotations

import pytest

from specdemo.remote.counters import Counters, Unreadable, difference, parse
from tests.remote.server import transcript

BEFORE, AFTER = parse(transcript("before.prom")), parse(transcript("after.prom"))


def test_a_scrape_holds_totals_and_positions() -> None:
    assert parse(transcript("before.prom")) == Counters(True, 100, 400, 150, (70, 40, 25, 15), 9)


def test_the_difference_is_what_one_run_counted() -> None:
    assert difference(BEFORE, AFTER) == Counters(True, 6, 24, 9, (4, 3, 1, 1), 1)


def test_a_server_without_speculation_has_no_such_counters() -> None:
    plain = parse(transcript("plain.prom"))
    assert not plain.speculates and plain.finished == 9


def test_several_engines_of_one_server_are_summed() -> None:
    both = transcript("before.prom") + transcript("before.prom").replace('engine="0"', 'engine="1"')
    assert parse(both).accepted_at == (140, 80, 50, 30)


def test_a_server_that_was_started_anew_between_has_no_difference() -> None:
    assert difference(AFTER, BEFORE) is None


def test_positions_may_appear_with_the_first_draft() -> None:
    first = Counters(True, 0, 0, 0, (), 0)
    assert difference(first, BEFORE).accepted_at == BEFORE.accepted_at


@pytest.mark.parametrize(
    "text",
    [
        "<html>not found</html>",
        "",
        "another_engines_requests_total 4",
        "vllm:spec_decode_num_drafts_total lots",
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="x"} 1',
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 1',
        "vllm:spec_decode_num_accepted_tokens_per_pos_total 1",
        "vllm:spec_decode_num_drafts_total NaN",
        "vllm:spec_decode_num_drafts_total +Inf",
    ],
)
def test_other_text_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)
