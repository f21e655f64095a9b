"""Recorded forwards compute what the eager ones do: behind any rewinds, over every span.

A replay is a call here (see capture.Calls): the same static work over the same buffers that a GPU records as a graph.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import MistralConfig, MistralForCausalLM, PreTrainedModel

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.capture import Calls, Recordings, Work, roomy, spans
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Runner, prefill
from specdemo.decoding.steps import Step
from specdemo.models.lean import lean_runner
from tests.reads import counted_reads
from tests.threads import one_thread  # noqa: F401
from tests.tiny import tiny_llama, tiny_qwen2, tiny_qwen3

ROWS = range(1, 6)


def tiny_mistral() -> PreTrainedModel:
    """With a sliding window of 16."""
    config = tiny_llama().config.to_dict()
    keys = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
    )
    torch.manual_seed(3)
    same = {key: config[key] for key in keys}
    return MistralForCausalLM(
        MistralConfig(**same, sliding_window=16, max_position_embeddings=512, initializer_range=0.3)
    ).eval()


@pytest.fixture(scope="module", params=[tiny_qwen3, tiny_mistral], ids=lambda f: f.__name__)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return request.param()


def captured(model: PreTrainedModel, aux_layers: tuple[int, ...] = ()) -> CapturedRunner:
    return CapturedRunner(lean_runner(model), Calls(), ROWS, aux_layers)


def ids_of(runner: Runner, n: int) -> Tensor:
    return torch.randint(runner.vocab_size, (n,), generator=torch.Generator().manual_seed(1))


def test_any_forwards_and_rewinds_end_where_the_eager_ones_do(model: PreTrainedModel) -> None:
    runner, eager = captured(model, (0, 1)), lean_runner(model)
    ids = ids_of(runner, 200)
    for one in (runner, eager):
        one.begin(200)
        prefill(one, ids[:60])
    generator = torch.Generator().manual_seed(2)
    for _ in range(40):
        n, back = (int(torch.randint(1, 6, (1,), generator=generator)) for _ in range(2))
        n = min(n, 200 - runner.length)
        at = runner.length
        mine, other = (one.forward(ids[at : at + n], n, (0, 1)) for one in (runner, eager))
        torch.testing.assert_close(mine.logits, other.logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(mine.hidden, other.hidden, atol=1e-4, rtol=1e-4)
        for one in (runner, eager):
            one.rewind(max(60, at + n - back))
    assert runner.held(ids) == runner.length == eager.length


def test_fewer_rows_of_logits_than_ids_are_the_last_ones(model: PreTrainedModel) -> None:
    runner = captured(model)
    ids = ids_of(runner, 40)
    runner.begin(60)
    prefill(runner, ids[:30])
    whole = runner.forward(ids[30:34], 4).logits.clone()
    runner.rewind(30)
    assert torch.equal(runner.forward(ids[30:34], 2).logits, whole[2:])
    runner.rewind(30)
    assert runner.forward(ids[30:34], 0).logits.shape == (0, runner.vocab_size)


def text(steps: list[Step]) -> list[int]:
    return [token.id for step in steps for token in step.tokens]


def test_the_baseline_writes_the_same_text() -> None:
    model, params = tiny_llama(), SamplingParams(temperature=1.0, seed=4)
    prompt = list(range(3, 20))
    lanes = [
        autoregressive(one, prompt, params, Ending(Limits(200, 500), 17))
        for one in (captured(model), lean_runner(model))
    ]
    mine, other = (text(list(lane)) for lane in lanes)
    assert mine == other and len(mine) == 200


def test_a_longer_text_moves_the_cache_and_keeps_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdemo.decoding.capture.SHORTEST_SPAN", 64)
    model = tiny_llama()
    runner, eager = captured(model), lean_runner(model)
    ids = ids_of(runner, 470)
    runner.begin(50)
    prefill(runner, ids[:50])
    eager.begin(470)
    prefill(eager, ids[:50])
    for length in (100, 450):
        runner.begin(length + 20, keep=runner.length)
        for start in range(runner.length, length, 3):
            mine, other = (one.forward(ids[start : start + 3], 3).logits for one in (runner, eager))
            torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_equal_shapes_stand_over_recorded_forwards() -> None:
    model = tiny_qwen2()
    runner, eager = EqualShapes(captured(model), (5,)), lean_runner(model)
    ids = ids_of(eager, 30)
    for one in (runner, eager):
        one.begin(30)
        prefill(one, ids[:10])
    for n in (1, 3, 5, 2):
        at = runner.length
        mine, other = (one.forward(ids[at : at + n], n).logits for one in (runner, eager))
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_recorded_work_holds_no_number_of_the_hosts() -> None:
    """Replayed at another place it does what belongs there; and it never asks the device for a number."""
    runner = captured(tiny_llama())
    runner.begin(60)
    prefill(runner, torch.arange(20))
    with counted_reads() as reads, torch.inference_mode():
        first = runner.forward(torch.tensor([7]), 1).logits.clone()
        again = runner.forward(torch.tensor([7]), 1).logits
    assert reads.count == 0
    assert not torch.equal(first, again)


def test_spans_double_up_to_the_whole_cache() -> None:
    assert spans(384) == [384]
    assert spans(512) == [512]
    assert spans(544) == [544]
    assert spans(700) == [700, 512]
    assert spans(4128) == [4128, 2048, 1024, 512]


def test_room_doubles_and_ends_with_the_context() -> None:
    assert [roomy(n, 2000) for n in (5, 512, 513, 1500, 2600)] == [512, 512, 1024, 2000, 2600]


def test_the_largest_is_recorded_first_and_the_shortest_span_that_fits_is_replayed() -> None:
    order: list[tuple[int, int]] = []
    told: list[float] = []

    def capture(work: Work) -> Work:
        work()
        return work

    recordings = Recordings(capture, lambda fraction, message: told.append(fraction))
    recordings.record((3, 1), 700, lambda n, span: lambda: order.append((n, span)))
    assert order == [(3, 700), (1, 700), (3, 512), (1, 512)]
    assert told == [0, 0.25, 0.5, 0.75]
    recordings.fitting(3, 512)()
    recordings.fitting(1, 513)()
    assert order[-2:] == [(3, 512), (1, 700)]
    assert recordings.fitting(3, 701) is None and recordings.fitting(2, 5) is None
