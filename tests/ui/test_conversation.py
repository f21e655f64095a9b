"""A chat goes on where it was, from what the browser sends; anything else that it sends is no chat."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.decoding.params import SamplingParams
from specdemo.race import Lane, Request
from specdemo.recording import RaceRecord, Wrote
from specdemo.ui.conversation import MOST_CHARACTERS, MOST_TURNS, Conversation, Turn, read_line
from specdemo.ui.desk import Desk
from specdemo.ui.worker import Began, Ended, Order, Refused, Worker
from tests.ui.synthetic import Synthetic

SPEC = ("ngram", "same")
TURNS = (Turn("Hi <b>", "Hello ${x}"), Turn("And?", ""))


def last_of(worker: Worker) -> tuple[Began | None, object]:
    """What began, and what the run ended with."""
    worker.start()
    began = None
    while True:
        for event in worker.drain(0.5):
            began = event if isinstance(event, Began) else began
            if isinstance(event, Ended | Refused):
                return began, event


def test_what_the_browser_keeps_comes_back() -> None:
    chat = Conversation(True, TURNS, read=9, reused=4)
    assert read_line(chat.line()) == Conversation(True, TURNS)
    assert "<" not in chat.line()


HOSTILE = [
    *(None, "", "{", "[]", "3", "[" * 100_000),
    *('{"on": 1, "turns": 0}', '{"on": true}', '{"on": true, "turns": [{"asked": 1}]}'),
    '{"on": true, "turns": [{"asked": "a", "answered": ["b"]}]}',
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_anything_else_is_no_chat(line: str | None) -> None:
    assert read_line(line) == Conversation()


@given(st.recursive(st.none() | st.booleans() | st.text() | st.integers(), st.lists, max_leaves=8))
def test_any_json_is_met_calmly(value: object) -> None:
    assert read_line(json.dumps({"on": True, "turns": value})).messages is not None


def test_a_chat_that_is_too_long_loses_its_oldest_turns() -> None:
    many = Conversation(True, tuple(Turn(str(i), "x") for i in range(MOST_TURNS + 5)))
    assert read_line(many.line()).turns == many.turns[5:]
    wide = Conversation(True, (Turn("a", "x" * MOST_CHARACTERS), Turn("b", "y")))
    assert read_line(wide.line()).turns == wide.turns[1:]


def test_turns_are_messages_in_order() -> None:
    assert [(one["role"], one["content"]) for one in Conversation(True, TURNS).messages] == [
        ("user", "Hi <b>"),
        ("assistant", "Hello ${x}"),
        ("user", "And?"),
        ("assistant", ""),
    ]


def test_a_run_that_wrote_nothing_adds_no_turn() -> None:
    record = RaceRecord("Hi", Request(prompt_ids=(1,)))
    assert Conversation(True).with_turn(record) == Conversation(True)
    assert Conversation(False).with_turn(record) == Conversation(False)


NEW = Conversation(True)


def order(visitor: str, before: Conversation = NEW) -> Order:
    return Order("Tell me", SPEC, Request(prompt_ids=(), max_new_tokens=8), before, visitor)


def test_caches_are_built_upon_only_by_the_visitor_who_filled_them_and_only_in_a_chat() -> None:
    desk = Desk(Synthetic().engine(), SPEC)
    reuse = []
    for asked in (
        order("ann"),
        order("ann"),
        order("ann", Conversation(False)),
        order("ann"),
        order("bob"),
        order("ann"),
        order(""),
        order(""),
    ):
        began, _ = last_of(Worker(desk, asked))
        reuse.append(began.request.reuse)
    assert reuse == [False, True, False, True, False, False, False, False]


def test_who_was_refused_builds_upon_nobodys_caches() -> None:
    desk = Desk(Synthetic().engine(), SPEC)
    last_of(Worker(desk, order("ann")))
    refused = replace(order("bob"), request=Request(prompt_ids=(), params=SamplingParams(temperature=0.005)))
    _, last = last_of(Worker(desk, refused))
    assert isinstance(last, Refused)
    began, _ = last_of(Worker(desk, order("bob")))
    assert not began.request.reuse, "the caches still hold another visitor's words"


def test_a_chat_that_fills_the_context_is_refused_by_its_own_sentence() -> None:
    desk = Desk(Synthetic(context=40).engine(), SPEC)
    _, last = last_of(Worker(desk, order("ann", Conversation(True, (Turn("a", "word " * 60),)))))
    assert last == Refused("refused.chat", {"n": "64", "context": "40"})


def test_the_chat_goes_on_with_the_baselines_answer() -> None:
    script = Synthetic()
    record = RaceRecord("Hi", Request(prompt_ids=(1, 2, 3)))
    for one in script.race(Request(prompt_ids=(1, 2, 3), max_new_tokens=6)):
        record.add(Wrote(one.lane, one.step, tuple(f"{one.lane[0]}{token.id} " for token in one.step.tokens)))
    chat = Conversation(True, TURNS).with_turn(record)
    assert chat.turns[:2] == TURNS and chat.read == 3
    assert chat.turns[2].answered == "".join(record.lanes[Lane.BASELINE].texts) and chat.turns[2].answered[0] == "b"
