"""The whole of `bench --gpu` on a CPU, with tiny shapes: what is measured here is nothing, that it runs is all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config

from specdemo.bench.gpu import Plan, Shapes, Simulated, measure
from specdemo.bench.gpu_models import LLAMA_8B, QWEN_7B, QWEN_HALF_B, bytes_read
from specdemo.cli import main
from specdemo.decoding.capture import Calls
from specdemo.decoding.drafter import Draft
from tests.bench.conftest import ScriptedWatch
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401

TINY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
PAIRS = (
    Shapes("model", Qwen2Config(vocab_size=66, **TINY), Qwen2Config(vocab_size=64, **TINY), 0.8),
    Shapes("head", LlamaConfig(vocab_size=64, **TINY), None, 0.7),
)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr("specdemo.bench.gpu.copy_bandwidth", lambda device: 1e9)
    return Plan(CPU, torch.float32, PAIRS, lambda device: Calls(), prompt=16, new_tokens=24, gamma=3, repeats=1)


def test_every_row_is_measured_and_every_lane_writes_the_text_laid_down(plan: Plan, nobody: ScriptedWatch) -> None:
    told: list[str] = []
    results = {(result.row, result.what.split(":")[0]): result for result in measure(plan, nobody, told.append)}
    both = {("m", "model"), ("p", "model"), ("m", "head"), ("p", "head")}
    assert both < results.keys() and {row for row, _ in results} == set("mxop")
    assert not any(result.faults for result in results.values())
    assert all(len(result.values) == 1 and result.value > 0 for result in results.values() if result.row != "o")
    assert all(0 < result.value < 1 for result in results.values() if result.row == "o")
    assert "Recording forwards as graphs" in told


def test_a_slow_device_is_measured_less_often_and_that_is_said(plan: Plan, nobody: ScriptedWatch) -> None:
    results = measure(replace(plan, pairs=PAIRS[1:], repeats=9, new_tokens=12, seconds=0.0), nobody)
    assert {len(result.values) for result in results} == {1}
    assert all("1 of 9 repeats, to save time" in result.notes for result in results)


def test_the_shapes_are_those_of_the_models_that_they_are_named_after() -> None:
    gib = {config.vocab_size: bytes_read(config, torch.bfloat16) / 2 for config in (QWEN_7B, QWEN_HALF_B, LLAMA_8B)}
    assert gib[QWEN_7B.vocab_size] == 7_615_616_512 - QWEN_7B.vocab_size * 3584
    assert gib[QWEN_HALF_B.vocab_size] == 494_032_768
    assert gib[LLAMA_8B.vocab_size] == 8_030_261_248 - LLAMA_8B.vocab_size * 4096


def test_a_simulated_draft_is_right_as_often_as_it_should_be() -> None:
    class Zeros:
        aux_layers = ()

        def begin(self, *args: object) -> None: ...
        def commit(self, *args: object) -> None: ...
        def propose(self, gamma: int, draw: object) -> Draft:
            return Draft(torch.zeros(gamma, dtype=torch.long))

    script = torch.arange(6000) % 64
    drafter = Simulated(Zeros(), script, 0.8)
    drafter.begin(script[:9], 9, None, 6000)
    ids = drafter.propose(4000, None).ids
    assert 0.77 < (ids == script[10:4010]).double().mean() < 0.83
    drafter.commit([1, 2, 3], 2, None)
    assert torch.equal(drafter.propose(50, None).ids, ids[3:53])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_cuda_device_it_is_refused_by_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--gpu"]) == 2
    assert "There is no CUDA device here, and --gpu measures one" in capsys.readouterr().err
