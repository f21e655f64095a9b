"""What is wrong with a pair, where that is known: costs injected, distributions in closed form, faults planted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from specdemo.decoding import verification
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Rule
from specdemo.drafters.model import ModelDrafter
from specdemo.lab import diagnose as lab
from specdemo.lab.diagnose import DIAGNOSE, DiagnoseOptions, cost_model, positions, rule_faults
from specdemo.lab.experiment import Row
from specdemo.lab.prompt_files import PromptSet
from specdemo.lab.roofline import Bound, footprint, roof
from specdemo.lab.witness import divergence, expected_acceptance, total_variation
from specdemo.models.precision import Precision
from tests.lab.fixed import TV, Fixed, P, Q, always
from tests.lab.rows import rows_of
from tests.lab.worlds import World, at_its_own_time, first
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import tiny_llama

KL = float((P * (P / Q).log()).sum())


@pytest.fixture(autouse=True)
def _no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device on which a plain step of one second reaches 0.8 of what memory gives."""
    row = {"bytes/s": 100.0, "flops/s": 1000.0, "weight bytes": 80.0, "bytes per token held": 0.0}
    monkeypatch.setattr(lab, "_ceilings", lambda pair: row | {"flops per token": 20.0})


def examined(prompts: PromptSet, pair: Any = None, **options: Any) -> list[Row]:
    settings = {"gamma": 3, "temperature": 1.0, "max_new_tokens": 120, "per_kind": 1} | options
    return rows_of(DIAGNOSE, pair or Fixed(), DiagnoseOptions(prompts=prompts, **settings))


def of_prompts(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] != lab.DEVICE]


# --- Distributions ---------------------------------------------------------------------------------------------------


def test_one_prompt_can_be_looked_at_alone() -> None:
    cells = DIAGNOSE.cells(DiagnoseOptions(ask="Write a Python function."))
    assert cells == [{"kind": "device", "prompt": ""}, {"kind": "code", "prompt": "1"}]
    assert DiagnoseOptions(ask="Write it.").texts() == ["Write it."] and len(DIAGNOSE.cells(DiagnoseOptions())) == 7


def test_distances_are_those_of_the_papers() -> None:
    assert total_variation(P, Q) == pytest.approx(TV)
    assert divergence(P, Q) == pytest.approx(KL, rel=1e-5) and divergence(P, P) == 0
    assert divergence(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])) == float("inf")
    assert expected_acceptance(P, Q, Rule.REJECTION) == pytest.approx(1 - TV)


def test_shared_noise_accepts_what_the_pairwise_sum_says_and_what_races_do() -> None:
    p, q = P.double().numpy(), Q.double().numpy()
    pairwise = sum(1 / np.maximum(p / p[x], q / q[x]).sum() for x in range(len(p)))
    assert expected_acceptance(P, Q, Rule.SHARED_NOISE) == pytest.approx(pairwise, rel=1e-6)
    noise = np.random.default_rng(0).exponential(size=(100_000, len(p)))
    won = ((p / noise).argmax(1) == (q / noise).argmax(1)).mean()
    assert won == pytest.approx(pairwise, abs=0.006) and pairwise < 1 - TV
    one_hot = torch.eye(len(p))[4]
    for rule in (Rule.SHARED_NOISE, Rule.REJECTION):
        assert expected_acceptance(P, one_hot, rule) == pytest.approx(P[4].item())
        assert expected_acceptance(P, P, rule) == pytest.approx(1)


@pytest.mark.parametrize("rule", [Rule.REJECTION, Rule.SHARED_NOISE])
def test_every_position_shows_the_two_models_as_they_are_and_a_right_rule_is_right(
    prompts: PromptSet, rule: Rule
) -> None:
    rows = of_prompts(examined(prompts, rule=rule))
    should = expected_acceptance(P, Q, rule)
    places = positions(rows)
    assert len(places) == 3
    for at in places:
        assert at["tv"] / at["told"] == pytest.approx(TV, abs=1e-5)
        assert at["kl"] / at["finite"] == pytest.approx(KL, abs=1e-5)
        assert at["expected"] / at["judged"] == pytest.approx(should, abs=1e-5)
    assert places[0]["judged"] == places[0]["reached"]
    assert 0 < places[1]["judged"] <= places[0]["accepted"]  # fewer where a last draft was cut to one token
    (said,) = rule_faults(rows)
    assert said.startswith("The rule does what p and q allow")
    first_line = DIAGNOSE.table(rows)[0]
    assert (first_line["TV"], first_line["KL"]) == ("0.20", f"{KL:.2f}")


def bias(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Drafts are judged by uniform numbers that are not: a fault of the rule."""
    right = Sampler.uniforms
    monkeypatch.setattr(Sampler, "uniforms", lambda *of: right(*of) * factor)


@pytest.mark.parametrize(("factor", "meaning"), [(1.5, "drafts are lost"), (0.5, "no longer the target's own")])
def test_a_rule_that_accepts_too_little_or_too_much_is_called_a_fault(
    prompts: PromptSet, monkeypatch: pytest.MonkeyPatch, factor: float, meaning: str
) -> None:
    bias(monkeypatch, factor)
    said = DIAGNOSE.findings(examined(prompts, max_new_tokens=200))
    assert said[0].startswith("FAULT: the rule accepts") and meaning in said[0] and "say 0.800" in said[0]


def test_greedy_no_chance_excuses_a_refusal(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both say the same token always; distances are those of the models, not of what greedy makes of them."""

    class Agreeing(Fixed):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.drafter = ModelDrafter(always(Q.roll(-1)[torch.tensor([1, 0, 2, 3, 4, 5, 6])].lerp(P, 0.9)))

    rows = of_prompts(examined(prompts, Agreeing(), temperature=0.0, max_new_tokens=60))
    assert rule_faults(rows)[0].startswith("The rule does") and positions(rows)[0]["variance"] == 0
    assert 0 < positions(rows)[0]["tv"] / positions(rows)[0]["told"] < 0.1
    bias(monkeypatch, 1.5)
    rows = of_prompts(examined(prompts, Agreeing(), temperature=0.0, max_new_tokens=60))
    assert "with no chance in it" in rule_faults(rows)[0]


def test_block_is_measured_against_what_rejection_would_accept(
    prompts: PromptSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = of_prompts(examined(prompts, rule=Rule.BLOCK))
    assert rule_faults(rows)[0].startswith("The rule does what it should: block accepts +0.")
    right = verification.block
    monkeypatch.setattr(verification, "block", lambda p, d, q, uniforms, noise: right(p, d, q, uniforms * 0 + 1, noise))
    assert rule_faults(of_prompts(examined(prompts, rule=Rule.BLOCK)))[0].startswith("FAULT: block accepts")


# --- Costs -----------------------------------------------------------------------------------------------------------


def causes(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch, world: World, **options: Any) -> list[str]:
    rows = examined(prompts, at_its_own_time(world, monkeypatch), max_new_tokens=1 + 60, temperature=0.0, **options)
    return DIAGNOSE.findings(rows)


def dearest(said: list[str]) -> str:
    return next(sentence for sentence in said if sentence.startswith("Costs most"))


def test_the_dearest_cause_comes_first_with_what_it_costs(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = causes(prompts, monkeypatch, World(first(3), c=1.0))
    assert dearest(slow).startswith("Costs most: drafting (1.00 of a plain step a token)")
    assert "4.00× instead of 1.00×" in dearest(slow)
    wide = causes(prompts, monkeypatch, World(first(3), v=lambda k: 1 + 0.8 * k, c=0.0))
    assert dearest(wide).startswith("Costs most: verification (0.800 of a plain step a drafted token)")
    deaf = causes(prompts, monkeypatch, World(first(1), c=0.05))
    assert dearest(deaf).startswith("Costs most: refused drafts (α 0.5") and "distill" in dearest(deaf)
    assert "No draft length pays" not in " ".join(deaf)


def test_a_draft_length_that_is_right_is_said_to_be(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = World(first(1), v=lambda k: 1 + 0.02 * k, c=0.02)  # α a half: 1.674 by γ 3, 1.670 by γ 4, 1.56 by γ 7
    right = "γ 4 is within 3% of the best draft length, γ 3, as predicted."
    assert right in causes(prompts, monkeypatch, cheap, gamma=4)
    assert not any("of the best draft length" in one for one in causes(prompts, monkeypatch, cheap, gamma=7))


def test_where_nothing_pays_it_says_to_batch_instead(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    said = causes(prompts, monkeypatch, World(first(0), c=0.5))
    assert any("answer several requests at a time" in sentence for sentence in said)
    assert any("Take γ 0" in sentence for sentence in said)


def test_the_costs_of_all_prompts_are_the_worlds(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_its_own_time(World(first(1), v=lambda k: 1 + 0.1 * k, c=0.2), monkeypatch)
    model = cost_model(of_prompts(examined(prompts, world, max_new_tokens=1 + 60, temperature=0.0)))
    assert (model.c, model.slope, model.o, model.drafts) == pytest.approx((0.2, 0.1, 0.0, 29.5 / 30), abs=0.02)
    assert model.alpha == pytest.approx(0.5, abs=0.02)


def test_the_text_that_copies_is_found(prompts: PromptSet) -> None:
    assert lab._copied([1, 2, 3, 4, 1, 2], [3, 4, 1, 2, 3]) == {"looked up": 4, "lookup found": 4, "lookup right": 4}
    assert lab._copied([1, 2], [3, 4, 5]) == {"looked up": 2, "lookup found": 0, "lookup right": 0}


# --- The device ------------------------------------------------------------------------------------------------------


def test_a_step_is_bound_by_what_it_comes_near(prompts: PromptSet) -> None:
    one = SimpleNamespace(weights=80.0, per_token=0.1, flops=20.0)
    assert roof(one, held=100, seconds=1.0, bytes_per_second=100.0, flops_per_second=1000.0).memory == pytest.approx(
        0.9
    )
    for bytes_per_second, flops_per_second, bound in (
        (100, 1000, Bound.MEMORY),
        (1000, 25, Bound.ARITHMETIC),
        (1000, 1000, Bound.OVERHEAD),
    ):
        assert roof(one, 0, 1.0, bytes_per_second, flops_per_second).bound is bound


def test_a_step_reads_every_weight_once_and_keys_and_values_for_each_token() -> None:
    model = tiny_llama()
    count = sum(weight.numel() for weight in model.parameters())
    pair = SimpleNamespace(
        loaded=SimpleNamespace(model=model, parameters=count),
        target=SimpleNamespace(device=CPU),
        target_precision=Precision.FP32,
    )
    of = footprint(pair)
    assert (of.weights, of.per_token, of.flops) == (4 * count, 4 * 2 * 3 * 2 * 16, 2 * count)


def test_what_is_said_of_the_device_follows_from_the_plain_step(
    prompts: PromptSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = causes(prompts, monkeypatch, World(first(2), c=0.1))
    assert any("reaches 80% of what a copy moves and 2% of a product's rate: it is bound by memory" in s for s in said)
