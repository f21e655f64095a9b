"""The sweep where acceptance is known: constant, 1 - TV at every temperature, or made up."""

from __future__ import annotations

import pytest
import torch

from specdemo.decoding.steps import Rule
from specdemo.drafters.model import ModelDrafter
from specdemo.lab.experiment import Row
from specdemo.lab.pooled import having, pooled
from specdemo.lab.prompt_files import PromptSet
from specdemo.lab.sweep import SWEEP, SweepOptions
from tests.lab.rows import made, rows_of
from tests.lab.worlds import World, at_its_own_time, first
from tests.tables import ChainRunner, Tables
from tests.threads import one_thread  # noqa: F401


def test_where_the_same_drafts_are_right_at_every_temperature_none_repairs(
    prompts: PromptSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = at_its_own_time(World(first(2), c=0.1), monkeypatch)
    options = SweepOptions(prompts=prompts, gammas=(1, 2, 4), temperatures=(0.0, 1.0), max_new_tokens=31)
    rows = rows_of(SWEEP, world, options)
    acceptance, speedup = SWEEP.maps(rows)
    assert acceptance.lines == ("0", "1") and acceptance.columns == ("1", "2", "4")
    assert acceptance.values[0] == acceptance.values[1] and acceptance.values[0][:2] == (1, 1)
    assert acceptance.values[0][2] == pytest.approx(20 / 38), "the last draft is two tokens long"
    assert speedup.values[0] == pytest.approx((2 / 1.1, 3 / 1.2, 3 / 1.4), abs=0.05) and speedup.best[1] == 1
    best, repaired = SWEEP.findings(rows)
    assert best.startswith("The best cell is temperature ") and best.endswith(" with γ 2: 2.50×.")
    assert repaired.startswith("Temperature did not repair the draft: α is 0.8") and repaired.endswith("at 1.")
    assert len(SWEEP.table(rows)) == 6


ALIKE = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5, 0.0, 0.0])
OTHER = torch.tensor([0.0, 2.0, 1.0, -1.0, 0.5, 0.0, 1.0])


def always(logits: torch.Tensor) -> ChainRunner:
    """The same distribution after every token."""
    return ChainRunner(Tables((logits[None], logits.expand(7, 7))))


def test_acceptance_at_a_temperature_is_one_less_the_total_variation_there(prompts: PromptSet) -> None:
    world = World()
    world.target, world.target_twin, world.drafter = always(ALIKE), always(ALIKE), ModelDrafter(always(OTHER))
    temperatures = (0.5, 2.0)
    options = SweepOptions(
        prompts=prompts,
        kinds=("code",),
        gammas=(3,),
        temperatures=temperatures,
        draft_temperatures=(None, 1.0),
        rules=(Rule.REJECTION,),
        max_new_tokens=300,
    )
    rows = rows_of(SWEEP, world, options)
    for temperature in temperatures:
        for own in (None, 1.0):
            p, q = (ALIKE / temperature).softmax(0), (OTHER / (own or temperature)).softmax(0)
            mine = having(rows, temperature=temperature, **{"draft temperature": own})
            assert pooled(mine)["α"] == pytest.approx(torch.minimum(p, q).sum().item(), abs=0.06)
    assert list(SWEEP.maps(rows)[0].lines) == ["0.5", "0.5, draft 1", "2", "2, draft 1"]
    assert any(line["draft temperature"] == "same" for line in SWEEP.table(rows))


def of(temperature: float, n: int, accepted: int, seconds: float) -> Row:
    cell = {"kind": "chat", "prompt": str(n), "temperature": temperature, "top-p": 1.0, "draft temperature": None}
    cell |= {"rule": "rejection", "γ": 4}
    return made(cell, tokens=100, passes=50, drafted=200, judged=100, accepted=accepted, verify_s=seconds)


@pytest.mark.parametrize(
    ("warm", "seconds", "said"),
    [
        ((60, 62, 61), (130.0, 80.0), "Temperature repaired the draft: α is 0.61 at temperature 1 against 0.30 at 0"),
        ((60, 62, 61), (130.0, 120.0), "Temperature raised acceptance and did not repair the draft"),
        ((60, 62, 61), (80.0, 60.0), "Temperature raised acceptance of a draft that paid anyway"),
        ((10, 80, 10), (130.0, 90.0), "Temperature did not repair the draft for certain"),
        ((20, 20, 20), (130.0, 90.0), "Temperature did not repair the draft: α is 0.30 at 0 and 0.20 at 1"),
    ],
)
def test_what_is_said_of_a_repair(warm: tuple[int, ...], seconds: tuple[float, float], said: str) -> None:
    rows = [of(0.0, n, 30, seconds[0]) for n in range(3)] + [of(1.0, n, warm[n], seconds[1]) for n in range(3)]
    assert SWEEP.findings(rows)[1].startswith(said)
    assert SWEEP.findings([]) == SWEEP.maps([]) == SWEEP.table([]) == []
