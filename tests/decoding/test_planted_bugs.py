"""Tests of the tests: every well-known way to get speculative sampling wrong is caught with a power over 0.999.

Each fault is planted, its counts are taken, and the power of the very test that the right code passes is bounded from
below (see chisquare.power). The same is done to the whole loop.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from specdemo.decoding import speculative as loop
from specdemo.decoding import verification
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.sampling import Row, Sampler, race_winner
from specdemo.decoding.steps import Rule
from specdemo.decoding.verification import Judgement
from tests.chisquare import power
from tests.decoding.test_distribution import HOT, long_run
from tests.rounds import JUDGES, Judge, Round, block, rejection, run
from tests.tables import joint, processed, reference, tables
from tests.threads import one_thread  # noqa: F401

PARAMS = SamplingParams(temperature=0.8, top_p=0.9)
UNPROCESSED = SamplingParams(temperature=1.0)
GAMMA = 2
TARGET = tables(5, GAMMA + 1, seed=3)
DRAFT = TARGET.like(0.9)


def power_against(judge: Judge, p: list[Tensor] | None = None, q: list[Tensor] | None = None) -> float:
    p = processed(TARGET, PARAMS) if p is None else p
    q = processed(DRAFT, PARAMS) if q is None else q
    law = joint(reference(TARGET, PARAMS))
    return power(np.bincount(run(judge, p, q, GAMMA).sequences, minlength=law.size), law)


# --- Faults of a rule ------------------------------------------------------------------------------------------------


def replaced_token(r: Round, accepted: Tensor, weights: Tensor) -> Judgement:
    return Judgement(accepted, race_winner(weights, r.fresh), r.uniforms)


def row_of(distribution: Tensor, accepted: Tensor) -> Tensor:
    return distribution[torch.arange(len(accepted)), accepted]


def missing_residual(r: Round) -> Judgement:
    """Accept with min(1, p/q), the Metropolis form, and resample from p on refusal: what several articles do."""
    accepted = rejection(r).accepted
    return replaced_token(r, accepted, row_of(r.p, accepted))


def residual_of_q(r: Round) -> Judgement:
    """max(q - p, 0): the two sides exchanged."""
    accepted = rejection(r).accepted
    exchanged = row_of(r.q, accepted.clamp(max=GAMMA - 1)) - row_of(r.p, accepted)
    return replaced_token(r, accepted, exchanged.clamp(min=1e-9))


def missing_bonus(r: Round) -> Judgement:
    """After a full acceptance the next token is drawn from the row of the last draft, not from the one behind it."""
    judged = rejection(r)
    last = race_winner(r.p[:, GAMMA - 1], r.fresh)
    return judged._replace(token=torch.where(judged.accepted == GAMMA, last, judged.token))


def noise_of_draft_judges(r: Round) -> Judgement:
    """The uniform number that judges a draft is the one that drew it."""
    drew = r.draft_noise[:, :-1].gather(-1, r.drafted[..., None])[..., 0]
    return verification.rejection(r.p, r.drafted, r.q, 1 - torch.exp(-drew), r.fresh)


def noise_of_draft_corrects(r: Round) -> Judgement:
    """The residual is drawn with the noise that the refused draft was drawn with."""
    accepted = rejection(r).accepted
    return verification.rejection(r.p, r.drafted, r.q, r.uniforms, row_of(r.draft_noise, accepted))


def metropolis_hastings(r: Round) -> Judgement:
    """Accept with p(x) q(y) / (p(y) q(x)), y the token before; resample from p on refusal."""
    p_x, q_x = (d.gather(-1, r.drafted[..., None])[..., 0] for d in (r.p[:, :-1], r.q))
    y = r.drafted.roll(1, 1)
    p_y, q_y = (d.gather(-1, y[..., None])[..., 0].clamp(min=1e-9) for d in (r.p[:, :-1], r.q))
    accepted = (r.uniforms < p_x * q_y / (p_y * q_x)).long().cumprod(1).sum(1)
    return replaced_token(r, accepted, row_of(r.p, accepted))


def lenient(beta: float) -> Judge:
    """Accept with min(q, p·β) / q: the 'typical' bias that is called a parameter."""

    def judge(r: Round) -> Judgement:
        return verification.rejection(r.p, r.drafted, r.q, r.uniforms / beta, r.fresh)

    return judge


def upside_down(r: Round) -> Judgement:
    """Accept while u < q / min(q, p·β), β = 0.9: never under 1, so all is accepted and the draft's law comes out."""
    return lenient(1e9)(r)


def block_with_residual_unweighted(r: Round) -> Judgement:
    """Block's acceptance, and rejection's residual max(p - q, 0)."""
    accepted = block(r).accepted
    one = torch.ones_like(accepted, dtype=r.p.dtype)
    return replaced_token(r, accepted, verification._source(r.p, r.q, accepted, one))


def block_stops_at_the_first_refusal(r: Round) -> Judgement:
    """Block's thresholds, read token by token as rejection's are."""
    ratio = r.p[:, :-1].gather(-1, r.drafted[..., None])[..., 0] / r.q.gather(-1, r.drafted[..., None])[..., 0]
    weights = [torch.ones(len(ratio))]
    for i in range(GAMMA):
        weights.append((weights[-1] * ratio[:, i]).clamp(max=1))
    weight = torch.stack(weights, 1)
    surplus = (weight[:, 1:-1, None] * r.p[:, 1:-1] - r.q[:, 1:]).clamp(min=0).sum(-1)
    passing = torch.cat([surplus / (surplus + 1 - weight[:, 1:-1]).clamp(min=1e-9), weight[:, -1:]], 1)
    accepted = (r.uniforms < passing).long().cumprod(1).sum(1)
    at = weight.gather(1, accepted[:, None])[:, 0]
    return replaced_token(r, accepted, verification._source(r.p, r.q, accepted, at))


def drafts_own_draw(r: Round) -> Judgement:
    """Under shared noise: the refused draft stands if p likes it more than the target's own draw."""
    judged = verification.shared_noise(r.p, r.drafted, r.draft_noise)
    accepted = judged.accepted.clamp(max=GAMMA - 1)
    draft, row = row_of(r.drafted, accepted), row_of(r.p, accepted)
    refused = judged.accepted < GAMMA
    better = row.gather(1, draft[:, None]) > row.gather(1, judged.token[:, None])
    return judged._replace(token=torch.where(refused & better[:, 0], draft, judged.token))


FAULTS = [
    missing_residual,
    residual_of_q,
    missing_bonus,
    noise_of_draft_judges,
    noise_of_draft_corrects,
    metropolis_hastings,
    lenient(1.2),
    upside_down,
    block_with_residual_unweighted,
    block_stops_at_the_first_refusal,
    drafts_own_draw,
]


@pytest.mark.parametrize("judge", FAULTS)
def test_a_faulty_rule_is_caught(judge: Judge) -> None:
    assert power_against(judge) > 0.999


@pytest.mark.parametrize("rule", Rule)
def test_the_right_rules_are_not(rule: Rule) -> None:
    assert power_against(JUDGES[rule]) < 0.01


@pytest.mark.parametrize("rule", [Rule.REJECTION, Rule.BLOCK])
def test_raw_q_is_caught(rule: Rule) -> None:
    """The draft is drawn from the processed distribution and judged by the raw one."""
    raw = processed(DRAFT, UNPROCESSED)

    def judge(r: Round) -> Judgement:
        rows = [raw[0].expand(len(r.drafted), -1), raw[1][r.drafted[:, 0]]]
        return JUDGES[rule](Round(r.p, torch.stack(rows, 1), r.drafted, r.uniforms, r.draft_noise, r.fresh))

    assert power_against(judge) > 0.999


@pytest.mark.parametrize("rule", Rule)
def test_a_target_left_unprocessed_is_caught(rule: Rule) -> None:
    assert power_against(JUDGES[rule], p=processed(TARGET, UNPROCESSED)) > 0.999


# --- Faults of the loop ----------------------------------------------------------------------------------------------


def raw_q(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft is drawn from the processed distribution; the rule is given softmax(logits)."""
    draw = loop.Dice.__call__

    def draw_and_tell_raw(self: loop.Dice, logits: Tensor, drafted: list[Tensor]) -> tuple[Tensor, Tensor]:
        return draw(self, logits, drafted)[0], logits.softmax(-1)

    monkeypatch.setattr(loop.Dice, "__call__", draw_and_tell_raw)


def one_side_unprocessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verification's p is softmax(logits)."""
    monkeypatch.setattr(Sampler, "target", lambda self, logits, drafted: logits.softmax(-1))
    monkeypatch.setattr(Sampler, "after", lambda self, logits, drafted: Row(logits, logits.softmax(-1)))


def one_noise_for_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter of rounds stands still."""
    start = loop.Dice.start

    def stand_still(self: loop.Dice, position: int) -> None:
        start(self, position)
        self._round = 1

    monkeypatch.setattr(loop.Dice, "start", stand_still)


def off_by_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draft is judged by the distribution that follows it."""
    judge = loop.Dice.judge
    monkeypatch.setattr(loop.Dice, "judge", lambda self, logits, draft: judge(self, logits.roll(-1, 0), draft))


COLD = SamplingParams(temperature=0.4, draft_temperature=0.25)


LOOP_FAULTS = [
    (raw_q, Rule.REJECTION, COLD),
    (raw_q, Rule.BLOCK, COLD),
    (one_side_unprocessed, Rule.REJECTION, COLD),
    (one_noise_for_every_round, Rule.BLOCK, HOT),
    (off_by_one_row, Rule.REJECTION, HOT),
]


@pytest.mark.parametrize(("plant", "rule", "params"), LOOP_FAULTS)
def test_a_fault_of_the_loop_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], rule: Rule, params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert power(*long_run(rule, params)) > 0.999


def test_the_right_loop_is_not() -> None:
    assert power(*long_run(Rule.REJECTION, COLD)) < 0.01
