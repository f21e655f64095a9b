"""A side's Sample: what counts as its tokens, its passes and its time."""

from __future__ import annotations

import time

import pytest
import torch
from transformers import GenerationConfig

from specdemo.bench.figures import figures_of, outside_share
from specdemo.bench.measure import Repeat
from specdemo.bench.sides import Stopwatch, TimedRunner, run_generate, run_lane
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Output
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.general_runner import GeneralRunner
from tests.threads import one_thread  # noqa: F401
from tests.tiny import tiny_llama

PROMPT = [5, 9, 3, 5, 9]
NEW = 20


def lane(runner: object) -> object:
    ending = Ending(Limits(NEW, 500), len(PROMPT))
    drafter = NgramDrafter(torch.device("cpu"))
    return speculative(runner, drafter, PROMPT, SamplingParams(), Rule.SHARED_NOISE, 4, ending)


class SlowRunner:
    """A runner whose forwards cost what they are told to, on top of the tiny model's own time."""

    def __init__(self, runner: GeneralRunner, seconds: float) -> None:
        self.inner, self.extra, self.calls = runner, seconds, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def forward(self, ids: torch.Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        self.calls += 1
        time.sleep(self.extra)
        return self.inner.forward(ids, rows, aux_layers)


def test_our_lane_and_generate_write_the_same_number_of_tokens_and_the_same_text() -> None:
    model = tiny_llama()
    ours = run_lane(lane(GeneralRunner(model)), torch.device("cpu"))
    model.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=None)
    plain = run_generate(model, PROMPT, NEW)
    lookup = run_generate(model, PROMPT, NEW, prompt_lookup_num_tokens=4)
    assert ours.ids == plain.ids == lookup.ids and len(ours.ids) == NEW
    assert plain.passes == NEW - 1 and plain.decoded == NEW - 1
    assert lookup.passes <= plain.passes and lookup.first >= 1
    assert plain.whole_seconds > plain.seconds > 0


def test_generate_with_an_end_of_text_id_is_not_compared() -> None:
    model = tiny_llama()
    model.generation_config = GenerationConfig(eos_token_id=3, pad_token_id=None)
    with pytest.raises(AssertionError, match="same number"):
        run_generate(model, PROMPT, NEW)


def test_forwards_are_timed_after_the_first_pass_only() -> None:
    stopwatch = Stopwatch()
    slow = SlowRunner(GeneralRunner(tiny_llama()), seconds=0.005)
    sample = run_lane(lane(TimedRunner(slow, stopwatch)), torch.device("cpu"), stopwatch)
    assert slow.calls == sample.passes + 1  # the prompt's forward is not a round
    assert 0.005 * sample.passes <= sample.forward_seconds < sample.seconds
    assert stopwatch.seconds >= sample.forward_seconds + 0.005


def test_time_outside_the_forwards_is_what_the_rounds_take_beside_them() -> None:
    stopwatch = Stopwatch()
    slow = SlowRunner(GeneralRunner(tiny_llama()), seconds=0.002)
    sample = run_lane(lane(TimedRunner(slow, stopwatch)), torch.device("cpu"), stopwatch)
    assert outside_share([sample]) == 1 - sample.forward_seconds / sample.seconds
    figures = figures_of([Repeat({"lane": [sample]})], "lane")
    assert figures["ms inside the forwards"] + figures["ms outside"] == pytest.approx(figures["ms per pass"])
    parts = sum(figures[f"ms {part}"] for part in ("draft", "verify", "other"))
    assert parts <= figures["ms per pass"]  # the lane's own clock leaves out what yielding costs
