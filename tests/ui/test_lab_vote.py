"""The blind vote on the page, without a browser: what a script is told, and when."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from specdemo.lab import ballot
from specdemo.ui.lab import Lab
from specdemo.ui.page import Page
from specdemo.ui.replay import ClosedDesk
from tests.ui.lab_world import answered

VISITOR = SimpleNamespace(session_hash="ann", headers={}, client=None)
TEXTS = ("a cat sat", "a dog sat"), ("same", "same"), ("1 + 1", "one and one")


@pytest.fixture
def lab() -> Lab:
    """A page without a model, to which a result was brought."""
    lab = Page(ClosedDesk()).lab
    brought = lab.bring(VISITOR, SimpleNamespace(_data={"text": answered(*TEXTS).model_dump_json()}))
    assert json.loads(brought)["run"]["result"]["vote"] == {"of": 3, "differ": 2, "open": 2, "tally": None}
    return lab


def ask(lab: Lab, **what: Any) -> dict[str, Any]:
    answer = json.loads(lab.vote(VISITOR, SimpleNamespace(_data=what)))
    return answer.get("vote") or answer


def test_the_two_placements_of_a_pair_differ_in_nothing_but_the_sides(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for heads in (True, False):
        monkeypatch.setattr(ballot, "toss", lambda heads=heads: heads)
        monkeypatch.setattr(ballot.Ballot.__init__, "__defaults__", (ballot.toss,))
        told.append(ask(lab, do="begin"))
    one, other = (answer["sheet"] for answer in told)
    assert (one["left"], one["right"]) == TEXTS[0] == (other["right"], other["left"])
    assert one["question"] and one | {"left": "", "right": ""} == other | {"left": "", "right": ""}
    for answer in told:
        assert answer.keys() == {"sheet", "at", "of"} and (answer["at"], answer["of"]) == (0, 2)
        assert answer["sheet"].keys() == {"kind", "prompt", "repeat", "question", "left", "right"}


def test_votes_are_revealed_at_the_end_counted_and_kept(lab: Lab) -> None:
    ask(lab, do="begin")
    assert ask(lab, do="cast", at=0, choice="left")["at"] == 1
    assert ask(lab, do="cast", at=0, choice="right")["at"] == 1, "a pair has one vote"
    assert ask(lab, do="cast", at=1, choice=["left"])["at"] == 1 and ask(lab)["at"] == 1
    over = ask(lab, do="cast", at=1, choice="neither")
    assert [one["choice"] for one in over["revealed"]] == ["left", "neither"]
    mine = over["revealed"][0]["left"]
    tally = {"plain": 0, "drafted": 0, "neither": 1, "p": "1", "n": 1, "fewest": 6} | {mine: 1}
    assert over["result"]["vote"] == {"of": 3, "differ": 2, "open": 0, "tally": tally}
    assert over["result"]["findings"][-1].startswith("Blind vote:")
    file = json.loads(json.loads(lab.fetch(VISITOR, SimpleNamespace(_data={"kind": "json"})))["file"]["text"])
    assert [row.get("vote") for row in file["rows"]] == [mine, None, "neither"]
    again = json.loads(lab.bring(VISITOR, SimpleNamespace(_data={"text": json.dumps(file)})))
    assert again["run"]["result"]["vote"]["tally"] == tally
    file["rows"][0]["vote"] = "<b>"
    assert json.loads(lab.bring(VISITOR, SimpleNamespace(_data={"text": json.dumps(file)})))["refused"]


def test_what_was_passed_over_can_be_voted_on_later(lab: Lab) -> None:
    ask(lab, do="begin")
    ask(lab, do="cast", at=0, choice="skip")
    over = ask(lab, do="reveal")
    assert over["revealed"] == [] and over["result"]["vote"]["open"] == 2
    assert ask(lab, do="begin")["of"] == 2


def test_without_pairs_to_vote_on_there_is_a_sentence_or_nothing(lab: Lab) -> None:
    stranger = SimpleNamespace(session_hash="bob", headers={}, client=None)
    assert json.loads(lab.vote(stranger, SimpleNamespace(_data={"do": "begin"})))["refused"][0] == "lab.gone"
    lab.bring(VISITOR, SimpleNamespace(_data={"text": answered(("a", "a")).model_dump_json()}))
    assert ask(lab, do="begin")["revealed"] == []
    assert json.loads(lab.vote(VISITOR, SimpleNamespace(_data=None)))["vote"]["revealed"] == []
