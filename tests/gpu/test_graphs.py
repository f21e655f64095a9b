"""On a CUDA device recorded graphs write the eager engine's text, and a round waits for the device once.

Skipped where there is none. What graphs are worth is measured by `python -m specdemo bench --gpu`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

from specdemo.bench.random_head import random_head
from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.capture import CudaGraphs
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.drafters.model import ModelDrafter
from specdemo.models.lean import lean_runner
from specdemo.models.progress import silent
from specdemo.models.replays import capture_for, replayed
from tests.tiny import noised, tiny_llama

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

PROMPT = list(range(3, 25))
TOKENS, GAMMA = 300, 4
WAYS = [
    (SamplingParams(), Rule.SHARED_NOISE),
    (SamplingParams(temperature=1.0, seed=4), Rule.SHARED_NOISE),
    (SamplingParams(temperature=0.9, top_p=0.9, top_k=30, repetition_penalty=1.2, seed=5), Rule.BLOCK),
]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return tiny_llama().to("cuda")


def a_head(model: torch.nn.Module) -> Drafter:
    return random_head(model.config, model.get_input_embeddings().weight.detach(), model.config.vocab_size, 500)


def a_model(model: torch.nn.Module) -> Drafter:
    return ModelDrafter(lean_runner(noised(model, 0.03)))


def ending() -> Ending:
    return Ending(Limits(TOKENS, 500), len(PROMPT))


def told(steps: list[Step]) -> tuple[list[int], list[list[int]]]:
    return [t.id for step in steps for t in step.tokens], [[d.id for d in step.drafted] for step in steps]


@pytest.mark.parametrize(("params", "rule"), WAYS)
@pytest.mark.parametrize("make", [a_model, a_head])
def test_graphs_write_and_draft_what_the_eager_engine_does(
    model: torch.nn.Module, make: Callable, params: SamplingParams, rule: Rule
) -> None:
    eager = list(speculative(lean_runner(model), make(model), PROMPT, params, rule, GAMMA, ending()))
    (target, _, drafter), said = replayed(True, (lean_runner(model), lean_runner(model), make(model)), silent)
    assert said.startswith("on,") and isinstance(target, CapturedRunner)
    assert told(list(speculative(target, drafter, PROMPT, params, rule, GAMMA, ending()))) == told(eager)


def test_so_does_the_baseline(model: torch.nn.Module) -> None:
    params = SamplingParams(temperature=1.0, seed=4)
    recorded = CapturedRunner(lean_runner(model), CudaGraphs(torch.device("cuda")), (2, 1))
    lanes = [list(autoregressive(one, PROMPT, params, ending())) for one in (lean_runner(model), recorded)]
    assert told(lanes[0]) == told(lanes[1])


@pytest.mark.parametrize("make", [a_model, a_head])
@pytest.mark.parametrize("graphs", [True, False], ids=["graphs", "eager"])
def test_a_round_waits_for_the_device_once(model: torch.nn.Module, make: Callable, graphs: bool) -> None:
    lanes = (lean_runner(model), lean_runner(model), make(model))
    (target, _, drafter), _ = replayed(graphs, lanes, silent)
    params = SamplingParams(temperature=1.0, seed=4)
    steps = speculative(target, drafter, PROMPT, params, Rule.SHARED_NOISE, GAMMA, ending())
    next(steps)
    next(steps)
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            rounds = sum(1 for _ in steps)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert sum("synchronizing CUDA operation" in str(wait.message) for wait in waits) <= rounds


def test_a_steps_times_are_the_devices_and_add_up(model: torch.nn.Module) -> None:
    steps = list(
        speculative(lean_runner(model), a_head(model), PROMPT, SamplingParams(), Rule.SHARED_NOISE, GAMMA, ending())
    )
    assert all(step.draft_seconds > 0 and step.verify_seconds > 0 and step.other_seconds >= 0 for step in steps[1:-1])


def test_graphs_are_what_a_cuda_device_records() -> None:
    assert isinstance(capture_for(torch.device("cuda")), CudaGraphs)
