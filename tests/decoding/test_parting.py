"""Where two texts part, the gap stands beside what the dtype can tell apart there."""

from __future__ import annotations

import pytest
import torch

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from tests.tables import ChainRunner, Tables


@pytest.mark.parametrize(
    ("dtype", "name", "spacing"), [(torch.float32, "fp32", 2.0**-20), (torch.bfloat16, "bf16", 0.0625)]
)
def test_the_spacing_is_that_of_the_dtype_at_the_logits_size(dtype: torch.dtype, name: str, spacing: float) -> None:
    """Numbers between 8 and 16 lie eps * 8 apart."""
    logits = torch.full((1, 4), -3.0)
    logits[0, 1:3] = torch.tensor([9.0, 9.0])
    runner = ChainRunner(Tables((torch.zeros(1, 4), logits.expand(4, 4).to(dtype))))
    parting = find_parting(runner, (0,), SamplingParams(), [1, 1, 3], [1, 2, 3])
    assert (parting.index, parting.baseline, parting.speculative, parting.gap) == (1, 1, 2, 0)
    assert parting.tie and parting.dtype == name and parting.spacing == pytest.approx(spacing)
    hot = find_parting(runner, (0,), SamplingParams(temperature=0.5), [1, 1, 3], [1, 2, 3])
    assert hot.spacing == pytest.approx(2 * spacing), "on the scale of the gap, which is over temperature"


def test_one_lane_that_ended_has_no_gap() -> None:
    runner = ChainRunner(Tables((torch.zeros(1, 4), torch.zeros(4, 4))))
    parting = find_parting(runner, (0,), SamplingParams(), [1, 2], [1])
    assert (parting.index, parting.gap, parting.spacing) == (1, None, None)
    assert find_parting(runner, (0,), SamplingParams(), [1, 2], [1, 2]) is None
