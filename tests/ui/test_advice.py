"""Reasons and attempts follow from the figures: what was dear, what was found, what the cost model predicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdemo.decoding.steps import Drafted, DraftLength, Origin, Step, Stop, Token, Verdict, Why
from specdemo.race import Lane, Request
from specdemo.recording import Known, RaceRecord, Wrote
from specdemo.ui import advice
from specdemo.ui.text import STRINGS

PLAIN = 0.030


def race(
    accepted: int = 0,
    gamma: int = 5,
    matched: float = 1.0,
    draft: float = 0.0002,
    verify: float = 0.033,
    drafter: str = "n-gram lookup",
    **asked: object,
) -> RaceRecord:
    """A race of 120 tokens: `matched` of the steps draft, and `accepted` of each draft stand. Seconds a step."""
    record = RaceRecord("", Request((1,), gamma=gamma, max_new_tokens=120, **asked), Known(pair={"drafter": drafter}))
    for i in range(120):
        stop = Stop.BUDGET if i == 119 else None
        step = Step((Token(i, Origin.TARGET),), (), 0, Why.PLAIN if i else Why.PREFILL, i, 0.0, PLAIN, 0.0, stop=stop)
        record.add(Wrote(Lane.BASELINE, step, ("x",)))
        if not i:
            record.add(Wrote(Lane.SPECULATIVE, replace(step, stop=None), ("x",)))
    at, round = 1, 0
    while at < 120:
        drafts = gamma if int((round + 1) * matched) > int(round * matched) else 0
        stand = min(accepted, 119 - at) if drafts else 0
        verdicts = [Verdict.ACCEPTED] * stand + [Verdict.REFUSED] + [Verdict.UNREACHED] * gamma
        step = Step(
            tuple(Token(at + i, Origin.ACCEPTED if i < stand else Origin.CORRECTED) for i in range(stand + 1)),
            tuple(Drafted(at + i if i < stand else 999, verdicts[i], 1.0, 1.0) for i in range(drafts)),
            gamma,
            Why.POLICY if drafts else Why.NO_MATCH,
            at,
            draft if drafts else 0.0,
            verify if drafts else PLAIN,
            0.0003,
            stop=Stop.BUDGET if at + stand == 119 else None,
        )
        record.add(Wrote(Lane.SPECULATIVE, step, ("x",) * (stand + 1), ("y",) * drafts))
        at, round = at + stand + 1, round + 1
    return record


def reasons(record: RaceRecord) -> list[str]:
    said = advice.reasons(record, record.comparison)
    for key, params in said:
        assert all(strings[key].format(**params) for strings in STRINGS.values())
    return [key for key, _ in said]


def attempts(record: RaceRecord, *heads: str) -> list[dict]:
    made = advice.attempts(record, record.comparison, ("ngram", *heads, "model"))
    for one in made:
        for key, params in (one["say"], one["note"]):
            assert all(strings[key].format(**params) for strings in STRINGS.values())
    return [one["set"] for one in made]


def test_a_text_that_copies_nothing_is_named_with_the_share_of_matches() -> None:
    record = race(matched=0.04, draft=0.004)
    (first, *_) = advice.reasons(record, record.comparison)
    assert first == ("reason.copies", {"share": "4"}) or first[0] == "reason.copies"
    assert int(first[1]["share"]) in range(3, 6)


def test_a_faster_run_that_matched_seldom_says_only_how_often() -> None:
    assert reasons(race(accepted=5, matched=0.3)) == ["reason.found"]
    assert reasons(race(accepted=4)) == []


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (race(accepted=0, drafter="a model"), "reason.foresee"),
        (race(accepted=3, gamma=5, draft=0.120, drafter="a model"), "reason.dear"),
        (race(accepted=1, gamma=2, verify=0.070, drafter="a model"), "reason.heavy"),
    ],
    ids=["hard to foresee", "a dear draft", "a dear verification"],
)
def test_a_slower_run_names_its_heaviest_reason(record: RaceRecord, said: str) -> None:
    assert record.comparison.speed == "slower"
    assert said in reasons(record) and len(reasons(record)) <= 2


def test_a_shorter_draft_is_proposed_where_the_cost_model_says_that_it_pays() -> None:
    record = race(accepted=1, gamma=8, draft=0.0300, drafter="a model")
    assert record.comparison.speed == "slower"
    settings = attempts(record)
    assert settings[0].keys() == {"gamma"} and 1 <= settings[0]["gamma"] < 8
    assert {"draft_length": DraftLength.COST_OPTIMAL} in settings and {"drafter": "ngram"} in settings


def test_lookup_is_never_proposed_in_place_of_lookup() -> None:
    settings = attempts(race(matched=0.04, draft=0.004, verify=0.05), "embedded", "ngram+embedded")
    assert {"drafter": "embedded"} in settings and {"drafter": "ngram"} not in settings
    assert all("drafter" not in one for one in attempts(race(matched=0.04, verify=0.05)))


def test_a_run_without_any_draft_gets_another_drafter_and_no_other_advice() -> None:
    record = race(matched=0.0)
    assert record.comparison.speed == "no speculation"
    assert reasons(record) == [] and attempts(record, "embedded") == [{"drafter": "embedded"}]


def test_what_gained_needs_no_advice_and_gamma_0_was_asked_for() -> None:
    assert attempts(race(accepted=4)) == []
    assert attempts(race(gamma=0, matched=0.0)) == []


def test_a_policy_is_not_proposed_to_one_that_has_one() -> None:
    record = race(accepted=0, drafter="a model", draft_length=DraftLength.COST_OPTIMAL)
    assert all("draft_length" not in one for one in attempts(record))
