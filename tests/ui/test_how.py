"""The step that is worked through is one that a run made, and the one that tells most."""

from __future__ import annotations

import pytest

from specdemo.decoding.steps import Verdict
from specdemo.race import Lane, Request
from specdemo.recording import Known, RaceRecord, Wrote
from specdemo.theory import expected_tokens
from specdemo.ui.how import telling, work
from specdemo.ui.runs import Run, Runs
from specdemo.ui.text import STRINGS
from tests.ui.synthetic import Synthetic


def a_run(**request: int) -> Run:
    script = Synthetic()
    record = RaceRecord("Tell  me\nabout lists", Request((1,), **request), Known(pair={"target": "T", "drafter": "D"}))
    for one in script.race(Request((1,), **request)):
        texts = tuple(script.words[token.id] for token in one.step.tokens)
        record.add(Wrote(one.lane, one.step, texts, tuple(script.words[drafted.id] for drafted in one.step.drafted)))
    return Run(record)


def test_the_step_is_the_runs_own_with_some_accepted_and_one_refused() -> None:
    run, runs = a_run(), Runs()
    runs.keep("ann", run)
    worked = work(runs, "ann", {"run": run.number})
    assert (worked["from"], worked["target"], worked["prompt"]) == ("last", "T", "Tell me about lists")
    step = run.record.lanes[Lane.SPECULATIVE].written[worked["step"] - 1].step
    verdicts = [row["verdict"] for row in worked["view"]["rows"]]
    assert verdicts == [drafted.verdict for drafted in step.drafted]
    assert Verdict.ACCEPTED in verdicts and Verdict.REFUSED in verdicts


def test_without_a_run_that_drafted_there_is_none() -> None:
    plain, runs = a_run(gamma=0), Runs()
    runs.keep("ann", plain)
    assert telling(plain) is None
    assert work(runs, "ann", {"run": plain.number}) == work(runs, "bob", {"run": 10**30}) == work(runs, "x", {}) == {}


def test_a_recorded_run_stands_in() -> None:
    run = a_run()
    runs = Runs([run.record])
    assert work(runs, "ann", {"run": "nonsense"})["from"] == "recorded"


@pytest.mark.parametrize("language", STRINGS)
def test_the_example_is_the_cost_models(language: str) -> None:
    said = STRINGS[language]["how.gain.example"]
    e = expected_tokens(0.8, 4)
    assert f"{e:.2f}" in said and f"{e / (1 + 0.05 * 4):.1f}" in said and f"{e / (1 + 0.1 * 4):.1f}" in said
