"""The model drafter's cache always holds what was committed, and its proposals are its model's own continuation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from specdemo.drafters.model import ModelDrafter
from tests.free_draw import FreeDraw
from tests.tables import TableRunner, tables
from tests.threads import one_thread  # noqa: F401

VOCAB, DEPTH = 3, 9
MODEL = tables(VOCAB, DEPTH, seed=1)


def greedy(logits: Tensor, drafted: list[Tensor]) -> tuple[Tensor, Tensor]:
    return logits.argmax(), logits.softmax(-1)


def continuation(output: list[int], gamma: int) -> list[int]:
    """What the model itself writes after an output, greedily."""
    output = list(output)
    for _ in range(gamma):
        row = 0
        for token in output:
            row = row * VOCAB + token
        output.append(int(MODEL.levels[len(output)][row].argmax()))
    return output[len(output) - gamma :]


ROUNDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, VOCAB - 1)), max_size=4)


@settings(max_examples=200, deadline=None)
@given(first=st.integers(0, VOCAB - 1), rounds=ROUNDS)
def test_proposals_continue_what_was_committed(first: int, rounds: list[tuple[int, int, int]]) -> None:
    """Whatever was accepted before; rounds that drafted nothing (γ 0) are taken in with the next proposal."""
    drafter = ModelDrafter(TableRunner(MODEL))
    drafter.begin(torch.tensor(MODEL.prompt), first, None, 100)
    output = [first]
    for gamma, accepted, own in rounds:
        gamma = min(gamma, DEPTH - len(output))
        draft = drafter.propose(gamma, FreeDraw(greedy)).ids.tolist() if gamma else []
        assert draft == continuation(output, gamma)
        accepted = min(accepted, len(draft))
        tokens = [*draft[:accepted], own]
        if len(output) + len(tokens) >= DEPTH:
            return
        drafter.commit(tokens, accepted, None)
        output += tokens
        held = drafter.runner.ids
        assert held == [*MODEL.prompt, *output][: len(held)], "the cache holds a refused token"
        assert [*held, *drafter._pending] == [*MODEL.prompt, *output]


def test_q_is_what_each_token_was_drawn_from() -> None:
    drafter = ModelDrafter(TableRunner(MODEL))
    drafter.begin(torch.tensor(MODEL.prompt), 1, None, 100)
    draft = drafter.propose(3, FreeDraw(greedy))
    assert draft.q.shape == (3, VOCAB)
    assert torch.equal(draft.q[0], MODEL.levels[1][1].softmax(-1))


@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_nothing_of_a_prompt_is_left_in_the_next(accepted: int) -> None:
    drafter = ModelDrafter(TableRunner(MODEL))
    for first in (2, 0):
        drafter.begin(torch.tensor(MODEL.prompt), first, None, 100)
        draft = drafter.propose(3, FreeDraw(greedy)).ids.tolist()
        assert draft == continuation([first], 3)
        if first:
            drafter.commit([*draft[:accepted], 1], accepted, None)
            drafter.propose(2, FreeDraw(greedy))  # left hanging, as a stopped run leaves it
