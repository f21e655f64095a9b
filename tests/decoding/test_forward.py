"""The lean forward: rows do not depend on their neighbours, weights are not held twice, and who is turned away why."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import PreTrainedModel

from specdemo.decoding.forward import LeanRunner, causal_mask
from specdemo.decoding.linear import Halved, Packed, Plain, halves, packs
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.lean import SelfCheck, lean_runner, self_check, why_not
from specdemo.models.runners import make_runner
from tests.tiny import tiny_gpt2, tiny_llama, tiny_qwen2, tiny_qwen3

packed_here = pytest.mark.skipif(
    not packs(torch.device("cpu"), torch.float32), reason="oneDNN packs no weights on this machine"
)
halved_here = pytest.mark.skipif(
    not halves(torch.device("cpu"), torch.float16), reason="this CPU has no products with fp16 weights"
)


@pytest.fixture(params=[tiny_llama, tiny_qwen2, tiny_qwen3], ids=lambda f: f.__name__)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return request.param()


@packed_here
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_product_is_the_plain_product(bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, offset = torch.randn(96, 64, generator=generator), torch.randn(96, generator=generator)
    x, residual = torch.randn(5, 64, generator=generator), torch.randn(5, 96, generator=generator)
    packed, plain = (kind(weight, offset if bias else None) for kind in (Packed, Plain))
    torch.testing.assert_close(packed(x), plain(x), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(packed.add(x, residual), plain.add(x, residual), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(plain.add(x, residual), x @ weight.T + residual + (offset if bias else 0))


@halved_here
def test_a_product_with_fp16_weights_widens_them_exactly() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, offset = torch.randn(96, 64, generator=generator).half(), torch.randn(96, generator=generator)
    x, residual = torch.randn(5, 64, generator=generator), torch.randn(5, 96, generator=generator)
    halved = Halved(weight, offset)
    torch.testing.assert_close(halved(x), x @ weight.float().T + offset, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(halved.add(x, residual), halved(x) + residual)


@halved_here
def test_a_forward_with_fp16_weights_is_the_models_own_in_fp32(model: PreTrainedModel) -> None:
    half = copy.deepcopy(model).half()
    runner = lean_runner(half)
    assert runner.dtype == torch.float32
    assert self_check(runner, half).passed(torch.float32)
    assert next(half.parameters()).dtype == torch.float16  # the check leaves the model as it was


def test_it_passes_its_own_check_on_every_architecture_it_knows(model: PreTrainedModel) -> None:
    check = self_check(lean_runner(model), model)
    assert check.passed(torch.float32), check
    assert isinstance(make_runner(model), LeanRunner)


def test_the_check_fails_where_a_weight_differs(model: PreTrainedModel) -> None:
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.model.layers[1].mlp.down_proj.weight.mul_(1.01)
    assert not self_check(lean_runner(other), model).passed(torch.float32)


def test_a_failed_check_gives_the_general_runner_and_a_sentence(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdemo.models.runners.self_check", lambda *_: SelfCheck(error=0.5, rms=0.4, same_argmax=0.2))
    runner = make_runner(model)
    assert isinstance(runner, GeneralRunner)
    assert "failed its self-check" in runner.notice


def test_what_does_not_fit_is_named() -> None:
    assert "GPT2LMHeadModel" in make_runner(tiny_gpt2()).notice
    dynamic, gelu, half = tiny_llama(), tiny_llama(), tiny_llama()
    dynamic.config.rope_parameters = {**dynamic.config.rope_parameters, "rope_type": "dynamic"}
    gelu.config.hidden_act = "gelu"
    half.lm_head.half()
    assert "dynamic rotary" in why_not(dynamic)
    assert "gelu" in why_not(gelu)
    assert "mixed" in why_not(half)
    assert why_not(tiny_llama()) == ""


def test_half_precision_is_as_near_to_full_as_the_models_own_forward(model: PreTrainedModel) -> None:
    half = copy.deepcopy(model).to(torch.bfloat16)
    ids = torch.arange(100)
    runner = lean_runner(half)
    runner.begin(100)
    lean = torch.cat([runner.forward(chunk, len(chunk)).logits.clone() for chunk in (ids[:50], *ids[50:].split(5))])
    with torch.no_grad():
        full, own = model(ids[None]).logits[0], half(ids[None]).logits[0]
    assert (lean - full).norm() < 1.3 * (own - full).norm()
    assert self_check(runner, half).passed(torch.bfloat16)


def test_runners_of_one_model_share_its_weights_and_not_their_caches(model: PreTrainedModel) -> None:
    one, two = make_runner(model), make_runner(model)
    assert one.weights is two.weights
    ids = torch.arange(9)
    one.begin(20)
    two.begin(20)
    one.forward(ids, 1)
    assert (one.length, two.length) == (9, 0)
    torch.testing.assert_close(two.forward(ids[3:], 1).logits.clone(), lean_once(model, ids[3:]))


def lean_once(model: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids[None]).logits[0, -1:]


@packed_here
def test_a_consumed_model_is_not_held_twice_and_its_runners_go_on(model: PreTrainedModel) -> None:
    ids = torch.arange(9)
    expected = lean_once(model, ids)
    runner = make_runner(model, consume=True)
    assert sum(p.numel() for name, p in model.named_parameters() if ".layers." in name and p.dim() > 1) == 0
    for run in (runner, make_runner(model, consume=True)):
        run.begin(20)
        torch.testing.assert_close(run.forward(ids, 1).logits.clone(), expected, atol=2e-4, rtol=2e-4)


def test_a_mask_lets_a_row_see_itself_and_what_is_before_it_within_the_window() -> None:
    like = torch.empty(0)
    full = causal_mask(n=2, start=3, first=0, span=8, window=None, like=like)
    assert full.eq(0).tolist() == [[True] * 4 + [False] * 4, [True] * 5 + [False] * 3]
    narrow = causal_mask(n=2, start=3, first=0, span=8, window=2, like=like)
    assert narrow.eq(0).nonzero().tolist() == [[0, 2], [0, 3], [1, 3], [1, 4]]
    tail = causal_mask(n=2, start=3, first=3, span=8, window=None, like=like)
    assert torch.equal(tail, full[:, 3:])
