"""The n-gram index finds what a search of the whole text finds: the latest match of the longest n-gram."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from specdemo.drafters.ngram import NgramDrafter
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401

TEXTS = st.integers(1, 4).flatmap(lambda letters: st.lists(st.integers(0, letters), min_size=1, max_size=60))


def no_draw(logits: Tensor, drafted: list[Tensor]) -> tuple[Tensor, Tensor]:
    raise AssertionError("a lookup has no logits to draw from")


def searched(text: list[int], gamma: int, longest: int, shortest: int) -> list[int]:
    """What followed the latest earlier occurrence of the text's longest suffix; it copies on through itself."""
    for n in range(longest, shortest - 1, -1):
        for start in range(len(text) - n - 1, -1, -1):
            if text[start : start + n] == text[-n:]:
                grown = list(text)
                for i in range(gamma):
                    grown.append(grown[start + n + i])
                return grown[len(text) :]
    return []


def begun(drafter: NgramDrafter, text: list[int]) -> NgramDrafter:
    drafter.begin(torch.tensor(text[:-1], dtype=torch.long), text[-1], None, 100)
    return drafter


@settings(max_examples=400, deadline=None)
@given(
    text=TEXTS,
    commits=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), max_size=8),
    gamma=st.integers(1, 16),
    lengths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_a_proposal_follows_the_latest_match_of_the_longest_ngram(
    text: list[int], commits: list[list[int]], gamma: int, lengths: tuple[int, int]
) -> None:
    shortest, longest = sorted(lengths)
    drafter = begun(NgramDrafter(CPU, longest, shortest), text)
    for tokens in [[], *commits]:
        if tokens:
            drafter.commit(tokens, accepted=len(tokens) - 1, hidden=None)
            text = text + tokens
        draft = drafter.propose(gamma, no_draw)
        assert draft.ids.tolist() == searched(text, gamma, longest, shortest)
        assert draft.ids.dtype == torch.long and draft.q is None


@pytest.mark.parametrize("text", [[5], [5, 5], [1, 2], [1, 2, 3]])
def test_a_short_text_is_no_trouble(text: list[int]) -> None:
    drafter = begun(NgramDrafter(CPU), text)
    assert drafter.propose(4, no_draw).ids.tolist() == []
    drafter.commit([7], accepted=0, hidden=None)
    assert len(drafter.propose(4, no_draw).ids) in (0, 4)


def test_a_repeating_text_is_continued_past_its_end() -> None:
    drafter = begun(NgramDrafter(CPU), [1, 2, 3, 1, 2, 3, 1, 2])
    assert drafter.propose(7, no_draw).ids.tolist() == [3, 1, 2, 3, 1, 2, 3]


def test_the_latest_match_is_preferred_and_the_longest_before_the_latest() -> None:
    assert begun(NgramDrafter(CPU), [1, 2, 8, 1, 2, 9, 1, 2]).propose(1, no_draw).ids.tolist() == [9]
    assert begun(NgramDrafter(CPU), [0, 1, 2, 8, 5, 1, 2, 9, 0, 1, 2]).propose(1, no_draw).ids.tolist() == [8]


@settings(max_examples=50, deadline=None)
@given(first=TEXTS, second=TEXTS)
def test_nothing_of_a_text_is_left_in_the_next(first: list[int], second: list[int]) -> None:
    used = begun(begun(NgramDrafter(CPU), first), second)
    assert used.propose(4, no_draw).ids.tolist() == begun(NgramDrafter(CPU), second).propose(4, no_draw).ids.tolist()


@pytest.mark.parametrize(
    ("text", "counted", "matched"),
    [([1, 2, 8, 5, 1, 2], 8, 2), ([5, 1, 2, 8, 5, 1, 2], 8, 3), ([1, 2] * 6, 8, 8), ([1, 2] * 6, 0, 0), ([1, 2], 8, 0)],
)
def test_it_says_how_many_tokens_match(text: list[int], counted: int, matched: int) -> None:
    """Beyond its longest n-gram, too, as far as it is asked to count; nothing where nothing matches."""
    assert begun(NgramDrafter(CPU), text).look_up(3, counted)[1] == matched
