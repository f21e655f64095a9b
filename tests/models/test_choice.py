"""The precision is measured where it is left open, taken as asked where it is not, and never assumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specdemo.decoding import linear
from specdemo.decoding.promise import Promise, probe
from specdemo.models import choice
from specdemo.models.choice import Choice, candidates, load_chosen, plain_step
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.loading import find_model, load_model
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import AUTO, PairSpec
from specdemo.models.precision import Precision
from specdemo.models.runners import make_runner
from specdemo.terminal import promised
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import tiny_llama

CPU = torch.device("cpu")
FP32, BF16, FP16 = Precision.FP32, Precision.BF16, Precision.FP16


@pytest.fixture
def target(save_model: Callable[..., Path]) -> str:
    return str(save_model("target", tiny_llama()))


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes fp32 and bf16 candidates, and their plain steps as long as it is told."""

    def script(**seconds: float) -> None:
        monkeypatch.setattr(choice, "candidates", lambda device: [FP32, BF16])
        by_dtype = {torch.float32: seconds["fp32"], torch.bfloat16: seconds["bf16"]}
        monkeypatch.setattr(choice, "plain_step", lambda runner: by_dtype[runner.weights.embedding.dtype])

    return script


@pytest.mark.parametrize(("fp32", "bf16", "best"), [(0.02, 0.03, FP32), (0.03, 0.02, BF16)])
def test_the_fastest_is_loaded(both: Callable, target: str, fp32: float, bf16: float, best: Precision) -> None:
    both(fp32=fp32, bf16=bf16)
    loaded, chosen = load_chosen(find_model(target), AUTO, CPU)
    assert chosen.precision is best and loaded.precision == best
    assert chosen.measured == {FP32: fp32, BF16: bf16}
    assert str(chosen) == f"chosen as the fastest plain step (fp32 {1000 * fp32:.1f} ms, bf16 {1000 * bf16:.1f} ms)"


def test_what_is_asked_for_is_not_measured(both: Callable, target: str) -> None:
    both(fp32=0.02, bf16=0.03)
    loaded, chosen = load_chosen(find_model(target), "bf16", CPU)
    assert (loaded.precision, chosen, str(chosen)) == ("bf16", Choice(BF16), "as asked")


def test_what_does_not_fit_into_memory_is_not_tried(
    both: Callable, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(fp32=0.02, bf16=0.03)
    monkeypatch.setattr(choice, "free_bytes", lambda device: 1000)
    _, chosen = load_chosen(find_model(target), AUTO, CPU)
    assert chosen.measured == {BF16: 0.03}


@pytest.mark.parametrize(
    ("packs", "halves", "expected"),
    [(True, True, [FP32, BF16]), (False, True, [FP32, FP16]), (False, False, [FP32])],
)
def test_only_what_the_device_multiplies_well_is_a_candidate(
    monkeypatch: pytest.MonkeyPatch, packs: bool, halves: bool, expected: list[Precision]
) -> None:
    monkeypatch.setattr(choice, "packs", lambda device, dtype: packs)
    monkeypatch.setattr(choice, "halves", lambda device, dtype: halves)
    assert candidates(CPU) == expected


def test_a_pair_says_what_was_chosen_and_a_draft_follows_it(both: Callable, target: str) -> None:
    both(fp32=0.03, bf16=0.02)
    pair = load_pair(PairSpec(target, target, device="cpu"))
    assert pair.target_precision is BF16 and pair.facts["target precision"] == "bf16"
    assert pair.facts["draft precision"] == "bf16"
    assert "bf16 20.0 ms" in pair.facts["precision choice"]
    assert pair.spec.target_precision == AUTO  # what was asked for


def test_a_plain_step_is_measured_on_any_runner() -> None:
    runner = GeneralRunner(tiny_llama())
    assert 0 < plain_step(runner) < 1
    assert runner.length == 0


@pytest.mark.parametrize("equal", [True, False])
def test_equal_shapes_are_asked_for_and_said(target: str, equal: bool) -> None:
    pair = load_pair(PairSpec(target, device="cpu", target_precision="fp32", equal_shapes=equal))
    assert ("equal shapes" in pair.facts) is equal
    assert pair.padding >= 1.0 if equal else pair.padding == 1.0
    assert pair.context == (496 if equal else 512)
    if equal:
        assert pair.facts["equal shapes"].startswith("forwards of 17 rows;")
        assert pair.switch_drafter(target).padding == pair.padding


@pytest.mark.skipif(not linear.halves(CPU, torch.float16), reason="this CPU has no products with fp16 weights")
def test_fp16_weights_on_a_cpu_have_the_same_bits_in_both_lanes_by_padded_forwards(target: str) -> None:
    """Its kernels for few rows sum in other orders: forwards of a number of rows that has none of these agree."""
    pair = load_pair(PairSpec(target, device="cpu", target_precision="fp16"))
    assert pair.facts["target precision"].startswith("fp16")
    assert pair.facts["forward"] == "lean"
    assert pair.facts["equal shapes"].startswith("forwards of 3 to 6, 8 to 19 rows")
    assert pair.padding >= 1
    assert pair.bits_promised, pair.probe


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_of_a_quantised_target_is_promised_what_its_own_probe_finds(
    save_model: Callable[..., Path], precision: str
) -> None:
    """Asked of the quantised layers themselves: their promise stands or is withdrawn, and the terminal says which."""
    folder = save_model("target", tiny_llama(256), word_tokenizer(256))
    pair = load_pair(PairSpec(str(folder), target_precision=precision, device="cpu"))
    found = probe(make_runner(load_model(find_model(str(folder)), Precision(precision), CPU).model, 256))
    assert pair.probe.promise is found.promise and pair.bits_promised is (found.promise is Promise.BIT_IDENTICAL)
    assert f"Promised: {pair.probe}." in promised(pair.facts) and str(pair.probe).startswith(found.promise)
