"""What the page says of a run: the verdicts of the design, from the run's own figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Parting, Rule, Why
from specdemo.race import Lane, Mode, Request
from specdemo.recording import Known, RaceRecord, Wrote
from specdemo.ui.runs import Run
from specdemo.ui.show import Show
from specdemo.ui.worker import Began, Ended, Refused, Waiting
from tests.ui import synthetic
from tests.ui.synthetic import Synthetic

REQUEST = Request(prompt_ids=(1, 2), max_new_tokens=64)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures follow every step."""
    monkeypatch.setattr("specdemo.ui.show.FIGURES_EVERY", 0.0)


def board_of(show: Show) -> dict[str, Any]:
    return json.loads(show.values[2])


def shown(
    script: Synthetic,
    request: Request = REQUEST,
    ended: Ended | None = None,
    steps: int | None = None,
    plain_seconds: float | None = None,
) -> Show:
    """A run of the script, or its first steps."""
    show = Show(Run(RaceRecord("Tell me", request)))
    show.take([Began(request, Known(script.bits, plain_seconds=plain_seconds))])
    for one in list(script.race(request))[:steps]:
        texts = tuple(script.words[token.id] for token in one.step.tokens)
        drafts = tuple(script.words[drafted.id] for drafted in one.step.drafted)
        show.take([Wrote(one.lane, one.step, texts, drafts)])
    if ended:
        show.take([ended])
    return show


def verdict(show: Show) -> str:
    return board_of(show)["verdict"][0]


def test_faster_slower_and_equal() -> None:
    fast = shown(Synthetic(), ended=Ended(False))
    assert verdict(fast) == "verdict.faster"
    assert set(board_of(fast)["verdict"][1]) == {"speedup", "verify", "tokens", "share", "needed"}
    assert board_of(fast)["wins"] and board_of(fast)["figures"]["same"]["say"][0] == "same"
    slow = shown(Synthetic(agreement=0.05), ended=Ended(False))
    assert verdict(slow) == "verdict.slower" and board_of(slow)["speed"].startswith("0.") and not board_of(slow)["wins"]


def test_while_it_runs_it_says_so_far() -> None:
    show = shown(Synthetic(), steps=40)
    assert verdict(show) == "live.faster"
    assert board_of(show)["figures"]["same"]["say"][0] == "same.live"
    assert board_of(show)["lanes"]["baseline"]["note"][0] == "pane.behind"


def test_the_first_tokens_make_no_speedup() -> None:
    early = [shown(Synthetic(), steps=steps) for steps in range(3, 10)]
    few = [show for show in early if min(show.record.metrics(lane).tokens for lane in Lane) < 8]
    assert len(few) > 2 and {verdict(show) for show in few} == {"starting", "live.early"}
    assert {board_of(show)["speed"] for show in few} == {None}


def test_a_machine_that_was_busy_is_said_with_what_a_plain_step_took_when_the_pair_was_loaded() -> None:
    def busy(plain_seconds: float | None) -> list[str]:
        return [key for key, _ in board_of(shown(Synthetic(), ended=Ended(False), plain_seconds=plain_seconds))["more"]]

    plain = shown(Synthetic(), ended=Ended(False)).record.metrics(Lane.BASELINE)
    step = plain.decode_seconds / (plain.tokens - 1)
    assert "verdict.busy" in busy(step / 2)
    assert not {"verdict.busy"} & {*busy(step), *busy(step / 1.4), *busy(None)}


def test_a_speedup_that_no_draft_can_give_is_said_to_be_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> list[str]:
        return [key for key, _ in board_of(shown(Synthetic(), ended=Ended(False)))["more"]]

    assert "verdict.uneven" not in said()
    monkeypatch.setattr("tests.ui.synthetic.PLAIN", 5 * synthetic.PLAIN)
    assert "verdict.uneven" in said()


def test_it_is_said_from_which_token_on_a_policy_has_given_drafting_up() -> None:
    script, show = Synthetic(), Show(Run(RaceRecord("Tell me", REQUEST)))
    show.take([Began(REQUEST, Known())])
    stood = 0
    for one in script.race(REQUEST):
        step, emitted = one.step, show.record.metrics(Lane.SPECULATIVE).tokens
        if one.lane is Lane.SPECULATIVE and emitted >= 20:
            stood = stood or emitted
            step = replace(step, why=Why.FALLBACK)
        drafts = tuple(script.words[drafted.id] for drafted in step.drafted)
        show.take([Wrote(one.lane, step, tuple(script.words[token.id] for token in step.tokens), drafts)])
        if not stood:
            assert "verdict.fellback" not in dict(board_of(show)["more"])
    show.take([Ended(False)])
    assert dict(board_of(show)["more"])["verdict.fellback"] == {"at": str(stood + 1)}


def test_no_speedup_is_shown_of_plain_decoding_over_itself() -> None:
    show = shown(Synthetic(), replace(REQUEST, gamma=0), Ended(False))
    assert verdict(show) == "verdict.gamma0" and board_of(show)["speed"] is None


@pytest.mark.parametrize(
    ("parting", "said", "more"),
    [
        (Parting(3, 1, 2, 0.06, tie=True), "verdict.faster", "verdict.tie"),
        (Parting(3, 1, 2, 0.06, True, "bf16", 0.0625), "verdict.faster", "verdict.tie.spaced"),
        (Parting(3, 1, 2, 1.9, tie=False), "verdict.fault", None),
        (None, "verdict.faster", "verdict.unexplained"),
    ],
    ids=["rounding tie", "rounding tie with its dtype", "fault", "not measured"],
)
def test_texts_that_part(parting: Parting | None, said: str, more: str | None) -> None:
    script = Synthetic()
    script.parted = script.text.replace("function", "method", 1)
    board = board_of(shown(script, ended=Ended(False, parting)))
    assert board["verdict"][0] == said
    assert [one[0] for one in board["more"]] == ([more] if more else [])
    assert board["parting"]["baseline"] != board["parting"]["speculative"]
    assert (board["speed"] is None) == (said == "verdict.fault")


def test_where_bits_are_promised_the_texts_are_bit_identical_or_at_fault() -> None:
    board = board_of(shown(Synthetic(bits=True), ended=Ended(False)))
    assert board["figures"]["same"]["say"][0] == "same.bits"
    assert board["figures"]["same"]["note"] == ["same.bits.note", {"n": "64"}]
    script = Synthetic(bits=True)
    script.parted = script.text.replace("function", "method", 1)
    for ended in (None, Ended(False, Parting(3, 1, 2, 1e-6, tie=True))):  # while it runs, too
        board = board_of(shown(script, ended=ended))
        assert board["verdict"][0] == "verdict.bits" and board["speed"] is None and board["mood"] == "fault"
        assert board["figures"]["same"]["say"][0] == "fault"


def test_rejection_promises_the_distribution_only() -> None:
    request = replace(REQUEST, rule=Rule.REJECTION, params=SamplingParams(temperature=0.8))
    script = Synthetic()
    script.parted = script.text.replace("function", "method", 1)
    board = board_of(shown(script, request, Ended(False)))
    assert board["figures"]["same"]["say"][0] == "distribution" and board["parting"] is None
    assert [one[0] for one in board["more"]] == ["verdict.sampled"]


def test_shared_noise_at_a_temperature_says_that_the_seed_gives_the_words() -> None:
    board = board_of(shown(Synthetic(), replace(REQUEST, params=SamplingParams(temperature=0.8)), Ended(False)))
    assert board["more"][0] == ["verdict.seeded", {"temperature": "0.8"}]


def test_a_slower_run_says_why_and_what_to_try() -> None:
    board = board_of(shown(Synthetic(agreement=0.05), ended=Ended(False)))
    assert [key for key, _ in board["more"]] == ["reason.foresee"]
    assert {"gamma", "draft_length", "drafter"} >= set().union(*(one["set"] for one in board["try"]))
    assert board_of(shown(Synthetic(agreement=0.05), steps=40)).get("try") is None, "not before it is over"
    assert not board_of(shown(Synthetic(), ended=Ended(False)))["try"]


def test_a_stopped_run_keeps_its_figures_and_says_so() -> None:
    board = board_of(shown(Synthetic(), ended=Ended(True), steps=40))
    assert board["verdict"][0] == "live.faster" and board["more"][0][0] == "verdict.stopped"
    assert {lane["end"] for lane in board["lanes"].values()} == {"stopped"}
    nothing = Show(Run(RaceRecord("Tell me", REQUEST)))
    nothing.take([Ended(True)])
    assert verdict(nothing) == "verdict.nothing"


def test_the_notch_stands_where_the_slower_lane_was_when_the_other_was_done() -> None:
    script = Synthetic()
    lanes = board_of(shown(script, ended=Ended(False)))["lanes"]
    assert lanes["speculative"]["note"][0] == "pane.earlier" and lanes["speculative"]["notch"] is None
    n = int(lanes["baseline"]["note"][1]["n"])
    assert 0 < n < 64 and lanes["baseline"]["notch"] == pytest.approx(n / 64, abs=1e-3)


def test_one_after_another_shows_the_baseline_first() -> None:
    show = shown(Synthetic(), replace(REQUEST, mode=Mode.ONE_AFTER_ANOTHER), steps=30)
    assert verdict(show) == "verdict.first"


def test_panes_stay_until_a_run_begins_and_a_refusal_takes_nothing_away() -> None:
    show = Show(Run(RaceRecord("Tell me", REQUEST)))
    show.take([Waiting()])
    assert show.values[:2] == (None, None) and board_of(show)["state"] == "waiting"
    show.take([Refused("refused.empty")])
    assert show.values[:2] == (None, None) and show.over and board_of(show)["mood"] == "refused"


def test_who_waits_is_told_the_place_and_the_time_where_they_are_known() -> None:
    show = Show(Run(RaceRecord("Tell me", REQUEST)))
    for waiting, key in ((Waiting(), "waiting"), (Waiting(3), "waiting.place"), (Waiting(3, 20), "waiting.seconds")):
        show.take([waiting])
        said, params = board_of(show)["verdict"]
        assert said == key and params["n"] == str(waiting.before)
    assert params["seconds"] == "20"


def test_a_run_whose_time_was_up_says_so_behind_the_verdict() -> None:
    why = ("budget.seconds", {"seconds": "120"})
    show = shown(Synthetic(), REQUEST, steps=30, ended=Ended(True, why=why))
    assert board_of(show)["state"] == "stopped" and list(why) in board_of(show)["more"]


def test_an_engine_that_tells_no_times_is_shown_without_them() -> None:
    script = Synthetic()
    show = Show(Run(RaceRecord("Tell me", REQUEST)))
    show.take([Began(REQUEST)])
    for one in script.race(REQUEST):
        step = replace(one.step, draft_seconds=None, verify_seconds=None, other_seconds=None)
        show.take([Wrote(one.lane, step, ("x",) * len(step.tokens), ("y",) * len(step.drafted))])
    show.take([Ended(False)])
    board = board_of(show)
    assert board["speed"] is None and board["lanes"][Lane.BASELINE]["rate"] == "–"
    assert board["figures"]["same"]["say"][0] == "same"
