"""Chunks are engine steps only where the server's counts leave no other reading."""

from __future__ import annotations

import pytest

from specdemo.remote.agreement import Round, counted, told
from specdemo.remote.counters import Counters
from specdemo.remote.wire import Drafting

LENGTHS = [1, 1, 3, 2, 1, 5, 2]
ROUNDS = [Round(), Round(0, 4), Round(2, 4), Round(1, 4), Round(0, 4), Round(4, 4), Round(2, 4)]


def between(drafts: int = 6, drafted: int = 24, accepted: int = 9, at: tuple[int, ...] = (4, 3, 1, 1)) -> Counters:
    return Counters(True, drafts, drafted, accepted, at, 1)


def drafting(accepted: list[int], drafted: list[int]) -> Drafting:
    histogram = [accepted.count(i) for i in range(5)]
    return Drafting(
        num_spec_steps=len(accepted),
        num_draft_tokens=sum(drafted),
        num_accepted_draft_tokens=sum(accepted),
        num_spec_tokens=4,
        acceptance_histogram=histogram,
        per_step_accepted=accepted,
        per_step_drafted=drafted,
    )


def test_counters_that_agree_tell_every_round_the_cut_last_one_included() -> None:
    assert counted(LENGTHS, between()) == ROUNDS


@pytest.mark.parametrize(
    "other",
    [
        between(drafts=7, drafted=28),  # another request's draft among them
        between(drafted=23),  # drafts of several lengths: which one was short is not counted
        between(accepted=10, at=(5, 3, 1, 1)),  # accepted at a place that no chunk reached
        between(accepted=7, at=(3, 2, 1, 1)),
        between(drafts=0, drafted=0, accepted=0, at=(0, 0, 0, 0)),
    ],
)
def test_counters_that_do_not_agree_tell_nothing(other: Counters) -> None:
    assert counted(LENGTHS, other) is None


def test_two_steps_in_one_chunk_do_not_agree() -> None:
    assert counted([1, 1, 5, 1, 5, 2], between()) is None


def test_a_prompt_and_a_step_in_one_chunk_do_not_agree() -> None:
    assert counted([2, 3, 2, 1, 5, 2], between()) is None


def test_steps_that_drafted_nothing_are_told_where_only_they_have_one_token() -> None:
    found = counted([1, 1, 3, 1], between(1, 4, 2, (1, 1, 0, 0)))
    assert found == [Round(), Round(), Round(2, 4), Round()]


def test_per_request_steps_tell_drafts_of_any_length() -> None:
    found = told([1, 1, 3, 2], drafting([0, 2, 1], [1, 2, 4]))
    assert found == [Round(), Round(0, 1), Round(2, 2), Round(1, 4)]


def test_a_plain_step_is_found_where_only_one_place_fits() -> None:
    assert told([1, 1, 3, 2], drafting([2, 1], [4, 4])) == [Round(), Round(), Round(2, 4), Round(1, 4)]


def test_a_plain_step_beside_a_refused_draft_cannot_be_told() -> None:
    assert told([1, 1, 1, 3], drafting([0, 2], [4, 4])) is None


@pytest.mark.parametrize(("accepted", "drafted"), [([1, 3], [4, 4]), ([2, 1, 0, 0], [4] * 4), ([3, 1], [2, 4])])
def test_per_request_steps_that_do_not_fit_tell_nothing(accepted: list[int], drafted: list[int]) -> None:
    assert told([1, 3, 1, 2], drafting(accepted, drafted)) is None


def test_a_summary_is_read_as_counters_are() -> None:
    summary = drafting([0, 2, 1, 0, 4, 2], [4] * 6).model_copy(update={"per_step_accepted": None})
    assert told(LENGTHS, summary) == ROUNDS


def test_no_chunk_tells_nothing() -> None:
    assert told([], drafting([], [])) is None
    assert counted([], between()) is None
