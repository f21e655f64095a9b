"""CONTRIBUTING.md's drafter of one's own, as it stands there: it is short, drafts, and never changes the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from tests.tables import ChainRunner, Tables

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
CIRCLE = Tables((torch.zeros(1, 6), 9 * torch.eye(6).roll(1, 1)))  # greedy: 0 1 2 3 4 5 0 1 ...


def test_it_is_written_in_forty_lines() -> None:
    assert len(CODE.strip().splitlines()) <= 46 and "class PeriodDrafter" in CODE


@pytest.mark.parametrize("rule", Rule)
def test_it_drafts_and_the_text_stays_the_targets(rule: Rule) -> None:
    house: dict[str, type] = {}
    exec(CODE, house)
    ending = lambda: Ending(Limits(30, 100), 7)  # noqa: E731
    prompt, params = (0, 1, 2, 3, 4, 5, 0), SamplingParams()
    plain = [
        token.id for step in autoregressive(ChainRunner(CIRCLE), prompt, params, ending()) for token in step.tokens
    ]
    for period in (6, 4):  # right, and wrong
        drafter = house["PeriodDrafter"](period)
        steps = list(speculative(ChainRunner(CIRCLE), drafter, prompt, params, rule, 4, ending()))
        assert [token.id for step in steps for token in step.tokens] == plain
        assert sum(step.accepted for step in steps) == (23 if period == 6 else 0)
        assert sum(len(step.drafted) for step in steps) >= 23
