"""Under equal shapes a runner computes what it computes without them, always with the same number of rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.promise import Promise, probe
from specdemo.decoding.runner import Output, Runner, prefill
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.lean import lean_runner
from tests.threads import one_thread  # noqa: F401
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2, tiny_qwen3

ROWS = 9
RUNNERS = {
    "lean llama": lambda: lean_runner(tiny_llama()),
    "lean qwen3": lambda: lean_runner(tiny_qwen3()),
    "general qwen2": lambda: GeneralRunner(tiny_qwen2()),
    "general gpt2": lambda: GeneralRunner(tiny_gpt2()),
}


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> Runner:
    return RUNNERS[request.param]()


class Counting:
    """A runner that notes how many ids each forward is given."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.sizes = runner, []

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        self.sizes.append((len(ids), rows))
        return self.runner.forward(ids, rows, aux_layers)


def test_every_forward_but_a_long_one_has_the_same_shape(runner: Runner) -> None:
    counting = Counting(runner)
    equal = EqualShapes(counting, (ROWS,))
    equal.begin(60)
    for n, rows in ((30, 1), (1, 1), (9, 9), (4, 0), (5, 2)):
        before = equal.length
        assert len(equal.forward(torch.arange(n), rows).logits) == rows
        assert equal.length == before + n
    assert counting.sizes == [(30, 1), *[(ROWS, ROWS)] * 4]


def test_logits_and_hidden_states_are_those_of_the_real_rows(runner: Runner) -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(runner.vocab_size, (60,), generator=generator)
    runner.begin(60)
    expected = runner.forward(ids, 60, (0, 1))
    logits, hidden = expected.logits.clone(), expected.hidden.clone()
    equal = EqualShapes(runner, (ROWS,))
    equal.begin(60)
    prefill(equal, ids[:20])
    for wrong in (1, 4, 9):  # drafts that are refused: what they leave behind is never read
        equal.forward(ids[:wrong], wrong)
        equal.rewind(20)
    at = 20
    for n in (1, 5, 9, 2, 9, 9, 5):
        out = equal.forward(ids[at : at + n], n, (0, 1))
        torch.testing.assert_close(out.logits, logits[at : at + n], atol=2e-4, rtol=2e-4)
        torch.testing.assert_close(out.hidden, hidden[at : at + n], atol=2e-4, rtol=2e-4)
        at += n
    assert at == 60


def test_a_forward_is_padded_to_the_next_shape_that_is_allowed(runner: Runner) -> None:
    counting = Counting(runner)
    equal = EqualShapes(counting, (3, 4, 6))
    equal.begin(60)
    for n in (1, 2, 3, 4, 5, 6, 7):
        assert len(equal.forward(torch.arange(n), n).logits) == n
    assert [size for size, _ in counting.sizes] == [3, 3, 3, 4, 6, 6, 7]
    assert equal.max_length == runner.max_length - 2


def test_the_surplus_rows_never_pass_the_end_of_the_context() -> None:
    runner = GeneralRunner(tiny_gpt2())  # learned positions: there is nothing past the last one
    equal = EqualShapes(runner, (ROWS,))
    assert equal.max_length == runner.max_length - (ROWS - 1)
    equal.begin(equal.max_length)
    prefill(equal, torch.arange(equal.max_length - 1) % runner.vocab_size)
    assert equal.forward(torch.tensor([5]), 1).logits.isfinite().all()
    assert equal.length == equal.max_length


def test_the_promise_is_probed_in_this_mode() -> None:
    """Bits that depend on the number of rows are equal under equal shapes, and bits that depend on places are not."""

    class Uneven(Counting):
        def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
            out = super().forward(ids, rows, aux_layers)
            return Output(out.logits + 1e-3 * len(ids) * (len(ids) <= 17))

    uneven = Uneven(lean_runner(tiny_llama()))
    assert probe(uneven).promise is Promise.EQUAL_UP_TO_ROUNDING
    if probe(EqualShapes(uneven.runner, (17,))).promise is Promise.BIT_IDENTICAL:
        assert probe(EqualShapes(uneven, (17,))).promise is Promise.BIT_IDENTICAL


@pytest.fixture(params=[tiny_llama, tiny_qwen2, tiny_qwen3], ids=lambda f: f.__name__)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return request.param()


def test_equal_shapes_keep_what_the_lean_forward_promises(model: PreTrainedModel) -> None:
    runner = lean_runner(model)
    if probe(runner).promise is Promise.BIT_IDENTICAL:
        assert probe(EqualShapes(lean_runner(model), (17,))).promise is Promise.BIT_IDENTICAL
