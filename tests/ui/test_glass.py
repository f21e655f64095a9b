"""The step under glass shows what a judgement was made of, for every rule, from real runs over tables of chances."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
import torch

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.sampling import Stream, exponential, noise_keys
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Verdict
from specdemo.drafters.model import ModelDrafter
from specdemo.race import Lane, Request
from specdemo.recording import RaceRecord, Wrote
from specdemo.ui.glass import answer, view
from specdemo.ui.parts import encode
from specdemo.ui.runs import Run, Runs
from specdemo.ui.text import STRINGS
from tests.tables import ChainRunner, Tables

VOCAB = 12
TARGET = Tables((torch.zeros(1, VOCAB), 2 * torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(0))))
HOT = SamplingParams(temperature=1.0, seed=7)


def raced(rule: Rule, params: SamplingParams = HOT, gamma: int = 4, tokens: int = 120, eos: int | None = None) -> Run:
    """A race over tables, recorded as the page does; a token is spelled by its id."""
    prompt = (1, 2, 3)
    limits = Limits(tokens, 1000, frozenset() if eos is None else frozenset({eos}))
    record = RaceRecord("", Request(prompt, params, rule, gamma, tokens))
    lanes = {
        Lane.BASELINE: autoregressive(ChainRunner(TARGET), prompt, params, Ending(limits, len(prompt))),
        Lane.SPECULATIVE: speculative(
            ChainRunner(TARGET),
            ModelDrafter(ChainRunner(TARGET.like(0.8))),
            prompt,
            params,
            rule,
            gamma,
            Ending(limits, len(prompt)),
        ),
    }
    for lane, steps in lanes.items():
        for step in steps:
            texts = tuple(f" {token.id}" for token in step.tokens)
            drafts = tuple(f" {drafted.id}" for drafted in step.drafted)
            residual = tuple(f" {token_id}" for token_id, _ in step.residual_top)
            record.add(Wrote(lane, step, texts, drafts, residual))
    return Run(record)


def views(run: Run) -> list[dict]:
    """Every step of the speculative lane, as the browser gets it."""
    steps = run.record.lanes[Lane.SPECULATIVE].written
    return [json.loads(encode(view(run, Lane.SPECULATIVE, i + 1))) for i in range(len(steps))]


def drafted(run: Run) -> list[dict]:
    """Those that drafted: not the prompt's own, and not one that the token limit left no room in."""
    return [step for step in views(run) if step["rows"]]


def refused(step: dict) -> dict | None:
    return next((row for row in step["rows"] if row["verdict"] == Verdict.REFUSED), None)


def test_steps_stand_behind_one_another_and_tell_what_they_wrote() -> None:
    shown = views(raced(Rule.REJECTION))
    assert shown[0]["kind"] == "plain" and shown[0]["notes"] == [["glass.why.prefill", {}]]
    assert all(a["to"] + 1 == b["from"] for a, b in pairwise(shown)) and shown[-1]["to"] == 120
    assert all(step["to"] - step["from"] + 1 == len(step["wrote"]) for step in shown)
    assert all(step["times"].keys() == {"draft", "verify", "other"} and step["plain"] > 0 for step in shown)


def test_rejection_shows_the_chance_the_draw_and_the_residual() -> None:
    seen = 0
    for step in drafted(raced(Rule.REJECTION)):
        assert step["kind"] == "rejection"
        for row in step["rows"]:
            if row["verdict"] == Verdict.UNREACHED:
                assert (row["p"], row["chance"], row["draw"]) == (None, None, None)
            else:
                assert row["chance"] == pytest.approx(min(1, row["p"] / row["q"]), abs=1e-5)
                assert (row["draw"] < row["chance"]) == (row["verdict"] == Verdict.ACCEPTED)
        fallen = refused(step)
        assert (step["mass"] is not None) == (fallen is not None)
        if fallen:
            seen += 1
            assert any(key == "glass.note.rejection" for key, _ in step["notes"])
            assert all(share > 0 for _, share, _ in step["residual"]) and 0 < step["mass"] < 1
            assert fallen["text"] not in [text for text, _, _ in step["residual"]], "p - q is negative there"
        elif len(step["wrote"]) > len(step["rows"]):
            assert step["notes"][0][0] == "glass.note.full" and step["wrote"][-1]["origin"] == "bonus"
    assert seen > 10


def test_block_takes_the_longest_start_that_passes_and_shows_every_chance() -> None:
    rescued = 0
    for step in drafted(raced(Rule.BLOCK, tokens=300)):
        passing = [i for i, row in enumerate(step["rows"], start=1) if row["draw"] < row["chance"]]
        stood = sum(row["verdict"] == Verdict.ACCEPTED for row in step["rows"])
        assert step["kind"] == "block" and stood == max(passing, default=0)
        rescued += len(passing) < stood
    assert rescued, "a start that failed was saved by a longer one"


def test_shared_noise_shows_both_winners_and_why_the_targets_wins() -> None:
    """g is recomputed from seed and place: the target's token has the higher log p + g wherever a draft fell."""
    seen = 0
    for step in drafted(raced(Rule.SHARED_NOISE)):
        assert step["kind"] == "shared" and step["residual"] == []
        for row in step["rows"]:
            if row["verdict"] == Verdict.UNREACHED:
                assert "own" not in row
            elif row["verdict"] == Verdict.ACCEPTED:
                assert row["own"]["id"] == row["id"] and row["own"]["score"] == row["score"]
            else:
                seen += 1
                assert row["own"]["id"] == step["wrote"][-1]["id"] != row["id"]
                assert row["score"] is None or row["own"]["score"] > row["score"]
    assert seen > 10


def test_the_score_of_shared_noise_is_that_of_the_whole_vocabularys_winner() -> None:
    """Not only above the draft's: above every other token's."""
    run = raced(Rule.SHARED_NOISE)
    ids = torch.arange(VOCAB, dtype=torch.int32)
    for step in drafted(run):
        for i, row in enumerate(step["rows"]):
            if "own" in row:
                token = run.record.lanes[Lane.SPECULATIVE].metrics.ids[step["from"] - 2 + i]
                p = (TARGET.levels[1][token] / HOT.temperature).softmax(-1)
                place = len(run.record.request.prompt_ids) + step["from"] - 1 + i
                g = -exponential(noise_keys(HOT.seed, Stream.TARGET, [place]), ids)[0].log()
                assert int((p.log() + g).argmax()) == row["own"]["id"]
                assert row["own"]["score"] == pytest.approx(float((p.log() + g).max()), abs=2e-3)


@pytest.mark.parametrize("rule", Rule)
def test_greedy_shows_the_targets_likeliest_token_under_every_rule(rule: Rule) -> None:
    seen = 0
    for step in drafted(raced(rule, SamplingParams())):
        assert step["kind"] == "greedy"
        for row in step["rows"]:
            assert row["draw"] is None and row["chance"] is None
            if row["verdict"] == Verdict.REFUSED and "own" in row:
                seen += 1
                assert row["own"]["id"] == step["wrote"][-1]["id"] and 0 < row["own"]["raw"] <= 1
    assert seen


def test_what_an_end_of_text_cuts_off_is_told() -> None:
    ended = 0
    for eos in range(VOCAB):
        last = views(raced(Rule.SHARED_NOISE, eos=eos))[-1]
        if last["rows"] and len(last["wrote"]) <= sum(row["verdict"] == Verdict.ACCEPTED for row in last["rows"]):
            ended += 1
            assert last["notes"][-1][0] == "glass.note.cut"
    assert ended


def test_every_note_has_its_sentence_with_its_parameters() -> None:
    for rule in Rule:
        for params in (HOT, SamplingParams()):
            for step in views(raced(rule, params)):
                for key, values in step["notes"]:
                    assert all(strings[key].format(**values) for strings in STRINGS.values())


def test_one_step_is_a_few_kilobytes_at_most() -> None:
    assert max(len(json.dumps(step)) for step in views(raced(Rule.BLOCK, gamma=16))) < 6000


@pytest.mark.parametrize(
    "asked",
    [
        None,
        "x",
        {},
        {"run": 1},
        {"run": "one", "lane": "baseline", "step": 1},
        {"run": 1, "lane": "third", "step": 1},
        {"run": 1, "lane": "baseline", "step": math.inf},
    ],
)
def test_a_question_that_makes_no_sense_gets_a_sentence(asked: object) -> None:
    assert answer(Runs(), "somebody", asked) == {"missing": "glass.none"}


def test_a_run_that_is_gone_or_a_step_that_never_was_gets_a_sentence() -> None:
    runs, run = Runs(), raced(Rule.REJECTION)
    runs.keep("somebody", run)
    asked = {"run": run.number, "lane": "speculative", "step": 2}
    assert answer(runs, "somebody", asked)["rows"]
    assert answer(runs, "somebody", asked | {"step": 10**9})["missing"] == "glass.none"
    assert answer(runs, "another", asked)["missing"] == "glass.gone"
    assert not any(math.isnan(row["q"]) for row in answer(runs, "somebody", asked)["rows"])
