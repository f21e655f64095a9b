"""Before the first timed round everything has run once, and nothing of it is left."""

from __future__ import annotations

import pytest

from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models import warm_up as module
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.lean import lean_runner
from specdemo.models.warm_up import warm_up
from tests.tables import CPU
from tests.tiny import noised, tiny_llama

MODEL = tiny_llama()


def test_every_rule_runs_in_both_lanes_and_all_are_empty_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[Rule] = []
    monkeypatch.setattr(module, "speculative", lambda *args: rules.append(args[4]) or speculative(*args))
    target, twin = lean_runner(MODEL), lean_runner(MODEL)
    drafter = CombinedDrafter(NgramDrafter(CPU), ModelDrafter(lean_runner(noised(MODEL, 0.03))))
    warm_up(target, twin, drafter)
    assert set(rules) == set(Rule)
    assert target.length == twin.length == drafter.model.runner.length == 0


def test_a_context_too_short_for_it_goes_without() -> None:
    short = tiny_llama()
    short.config.max_position_embeddings = 8
    warm_up(GeneralRunner(short), GeneralRunner(short), NgramDrafter(CPU))
