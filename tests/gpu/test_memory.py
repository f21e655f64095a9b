"""On a CUDA device a pair takes what was foreseen, gives it back when it is switched away, and survives a full device.

Skipped where there is none.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from specdemo.models.errors import MemoryShort
from specdemo.models.loading import find_model, load_model
from specdemo.models.memory import part
from specdemo.models.pair import load_pair
from specdemo.models.pair_options import PairSpec
from specdemo.models.precision import Precision
from specdemo.race import Request, race
from tests.models.tiny_tokenizers import word_tokenizer
from tests.tiny import noised, tiny_gpt2, tiny_llama, tiny_qwen3

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

SLACK = 1 << 20  # libraries keep workspaces, whose sizes are their own
WIDE = 131072  # ids: their logits alone take more than the slack
REQUEST = Request(tuple(range(5, 15)), max_new_tokens=8)


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def save(folder: Path, model: PreTrainedModel) -> str:
    model.save_pretrained(folder)
    word_tokenizer(min(4096, model.config.vocab_size)).save_pretrained(folder)
    return str(folder)


def allocated(device: torch.device) -> int:
    """By tensors that somebody holds."""
    gc.collect()
    torch.cuda.synchronize(device)
    return torch.cuda.memory_allocated(device)


@pytest.mark.parametrize("build", [tiny_llama, tiny_qwen3, tiny_gpt2])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.INT8, Precision.INT4])
def test_weights_take_what_was_foreseen(
    tmp_path: Path, device: torch.device, build: Callable[[], PreTrainedModel], precision: Precision
) -> None:
    source = find_model(save(tmp_path, build()))
    tensors = sum(1 for _ in build().parameters()) * 2  # each begins a block of 512 bytes
    before = allocated(device)
    loaded = load_model(source, precision, device)
    took = allocated(device) - before
    assert took == pytest.approx(part(source.config, precision, device).weights, rel=0.03, abs=512 * tensors)
    assert {weight.device for weight in loaded.model.parameters()} == {device}


def test_a_pair_that_is_switched_away_leaves_nothing_behind(tmp_path: Path, device: torch.device) -> None:
    target, draft = save(tmp_path / "a", tiny_llama()), save(tmp_path / "b", noised(tiny_llama(), 0.03))
    spec = PairSpec(target, draft, device=str(device), target_precision="fp32")
    pair = load_pair(spec)
    assert pair.facts["graphs"].startswith("on,") and pair.facts["device"] == str(device)
    list(race(pair, REQUEST))
    fresh = allocated(device)
    for drafter in ("ngram", target, draft):
        pair = load_pair(replace(spec, drafter=drafter))
        list(race(pair, REQUEST))
    assert abs(allocated(device) - fresh) < SLACK
    del pair
    assert allocated(device) < fresh


@pytest.fixture
def full(device: torch.device) -> Iterator[Callable[[], None]]:
    """Call it, and the device takes nothing more."""

    def fill() -> None:
        torch.cuda.empty_cache()
        held = torch.cuda.memory_reserved(device) + SLACK
        torch.cuda.set_per_process_memory_fraction(held / torch.cuda.get_device_properties(device).total_memory, device)

    yield fill
    torch.cuda.set_per_process_memory_fraction(1.0, device)


def test_a_device_that_is_full_at_load_is_a_sentence_and_the_next_load_works(
    tmp_path: Path, device: torch.device, full: Callable[[], None]
) -> None:
    target = save(tmp_path, tiny_llama(vocab_size=WIDE))
    spec = PairSpec(target, device=str(device), target_precision="fp32", graphs=False)
    before = allocated(device)
    full()
    with pytest.raises(MemoryShort):
        load_pair(spec)
    torch.cuda.set_per_process_memory_fraction(1.0, device)
    assert allocated(device) - before < SLACK
    assert load_pair(spec).facts["target"]


def test_a_device_that_fills_up_in_a_run_is_a_sentence_and_the_next_run_works(
    tmp_path: Path, device: torch.device, full: Callable[[], None]
) -> None:
    target = save(tmp_path, tiny_llama(vocab_size=WIDE))
    pair = load_pair(PairSpec(target, device=str(device), target_precision="fp32", graphs=False))
    long = replace(REQUEST, prompt_ids=tuple(range(3, 403)), max_new_tokens=64, gamma=16)
    full()
    with pytest.raises(MemoryShort, match="ran out in the middle of the run"):
        list(race(pair, long))
    torch.cuda.set_per_process_memory_fraction(1.0, device)
    assert len(list(race(pair, long))) > 2
