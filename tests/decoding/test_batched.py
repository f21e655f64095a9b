"""A request of a batch writes what it writes alone, whoever is beside it; drafts and padding change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.batched import Round, RowByRow, RowRequest, decode_together
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from specdemo.decoding.rows_forward import LeanRows
from specdemo.decoding.runner import Output
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Stop
from specdemo.drafters.head_rows import HeadRows
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.metrics import LaneMetrics
from specdemo.models.head_files import HeadSource, load_head
from specdemo.models.lean import lean_runner
from tests.drafters import speculators_heads as made
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_llama, tiny_qwen3


class Bench:
    """A target, the batch over its weights, and what a request writes alone."""

    def __init__(self, runner: LeanRunner, draft: Drafter | None = None) -> None:
        self.runner, self.draft, self.rows = runner, draft, LeanRows(runner)

    def alone(self, request: RowRequest) -> list[int]:
        steps = autoregressive(self.runner, request.prompt_ids, request.params, ending(request))
        return [token.id for step in steps for token in step.tokens]

    def together(self, requests: Sequence[RowRequest], drafter: RowByRow | None = None, gamma: int = 0) -> list:
        found = [[] for _ in requests]
        for done in decode_together(self.rows, requests, drafter, gamma):
            for number, step in done.steps.items():
                found[number].append(step)
        return found

    def assert_as_alone(self, requests: Sequence[RowRequest], lanes: list) -> None:
        for request, steps in zip(requests, lanes, strict=True):
            mine, other = self.alone(request), [token.id for step in steps for token in step.tokens]
            parting = find_parting(self.runner, request.prompt_ids, request.params, mine, other)
            assert parting is None or parting.tie, parting


def ending(request: RowRequest) -> Ending:
    return Ending(request.limits, len(request.prompt_ids))


def requests(vocab: int, seed: int, temperature: float = 0.0, eos: frozenset[int] = frozenset()) -> list[RowRequest]:
    """Seven prompts of 1 to 25 tokens, every other one repeating itself; budgets of 1 to 25 tokens."""
    g = torch.Generator().manual_seed(seed)
    found = []
    for i in range(7):
        ids = torch.randint(vocab, (1 + 4 * i,), generator=g).tolist()
        ids = ids if i % 2 else (ids[:5] * 6)[: len(ids)]
        params = SamplingParams(temperature=temperature, seed=seed + i)
        found.append(RowRequest(tuple(ids), params, Limits(1 + 4 * ((3 * i) % 7), 512, eos)))
    return found


def row_by_row(drafter: Drafter, rows: int) -> RowByRow:
    return RowByRow([drafter.twin() for _ in range(rows)])


@pytest.fixture(scope="module", params=[tiny_llama, tiny_qwen3], ids=lambda make: make.__name__)
def bench(request: pytest.FixtureRequest) -> Bench:
    model = request.param()
    return Bench(lean_runner(model), ModelDrafter(lean_runner(noised(model, 0.03))))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rows_equal_their_solo_runs_plain_and_with_drafts(bench: Bench, seed: int, temperature: float) -> None:
    work = requests(bench.rows.vocab_size, seed, temperature)
    bench.assert_as_alone(work, bench.together(work))
    for drafter, gamma in ((NgramDrafter(CPU), 5), (bench.draft, 3)):
        lanes = bench.together(work, row_by_row(drafter, len(work)), gamma)
        bench.assert_as_alone(work, lanes)
        assert [steps[-1].stop for steps in lanes] == [Stop.BUDGET] * len(work)
    figures = [LaneMetrics.of(steps) for steps in lanes]
    assert 0 < sum(one.accepted for one in figures) < sum(one.drafted for one in figures)


def test_a_row_drafts_and_accepts_in_a_batch_what_it_does_alone(bench: Bench) -> None:
    work = requests(bench.rows.vocab_size, seed=4)
    lanes = bench.together(work, row_by_row(bench.draft, len(work)), 4)
    for request, steps in zip(work, lanes, strict=True):
        args = request.prompt_ids, request.params, Rule.SHARED_NOISE, 4, ending(request)
        solo = list(speculative(bench.runner, bench.draft, *args))
        assert [(len(s.drafted), s.accepted, s.kv_length) for s in steps] == [
            (len(s.drafted), s.accepted, s.kv_length) for s in solo
        ]
        assert [[token.origin for token in s.tokens] for s in steps[1:]] == [
            [token.origin for token in s.tokens] for s in solo[1:]
        ]


def test_a_repetition_penalty_is_each_row_s_own(bench: Bench) -> None:
    work = [
        replace(one, params=replace(one.params, repetition_penalty=1.3, temperature=0.9 * (i % 2)))
        for i, one in enumerate(requests(bench.rows.vocab_size, seed=5))
    ]
    bench.assert_as_alone(work, bench.together(work, row_by_row(NgramDrafter(CPU), len(work)), 4))


def test_rows_that_are_done_leave_and_the_rest_go_on(bench: Bench) -> None:
    """Ends of text in several places: the forwards after them have fewer rows."""
    free = [bench.alone(one) for one in requests(bench.rows.vocab_size, seed=2)]
    work = requests(bench.rows.vocab_size, seed=2, eos=frozenset({free[3][4], free[5][0], free[6][7]}))
    lanes = bench.together(work, row_by_row(NgramDrafter(CPU), len(work)), 4)
    bench.assert_as_alone(work, lanes)
    assert Stop.EOS in {steps[-1].stop for steps in lanes} and Stop.BUDGET in {steps[-1].stop for steps in lanes}
    rounds = list(decode_together(bench.rows, work))
    sizes = [len(done.steps) for done in rounds[len(work) :]]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]
    assert len(rounds) - len(work) == max(len(steps) for steps in bench.together(work)) - 1


def test_a_batch_of_requests_that_end_at_once_has_no_rounds_but_prompts(bench: Bench) -> None:
    work = [replace(one, limits=Limits(1, 512)) for one in requests(bench.rows.vocab_size, seed=3)]
    rounds: list[Round] = list(decode_together(bench.rows, work, row_by_row(NgramDrafter(CPU), len(work)), 4))
    assert [len(done.steps) for done in rounds] == [1] * len(work)
    assert all(step.stop is Stop.BUDGET for done in rounds for step in done.steps.values())


def test_a_sliding_window_hides_in_a_batch_what_it_hides_alone() -> None:
    made = lean_runner(tiny_llama())
    for layer in made.weights.layers[1:]:
        layer.window = 7
    bench = Bench(LeanRunner(made.shape, made.weights, made.rotary))
    work = requests(bench.rows.vocab_size, seed=6)
    bench.assert_as_alone(work, bench.together(work, row_by_row(NgramDrafter(CPU), len(work)), 3))


def test_a_head_drafts_for_a_whole_batch_what_it_drafts_row_by_row() -> None:
    model = tiny_llama(vocab_size=made.VOCAB)
    embedding = model.get_input_embeddings().weight.detach()
    bench = Bench(lean_runner(model))
    bench.rows = Narrow(bench.rows)
    work = requests(made.VOCAB, seed=7)
    for name in ("llama", "llama-two_layers", "qwen3-norm_before_residual-norm_output"):
        config = SimpleNamespace(hidden_size=made.WIDTH, num_hidden_layers=6, max_position_embeddings=512)
        head = load_head(HeadSource(name, made.HEADS / name), config, embedding, made.VOCAB)
        together = bench.together(work, HeadRows.of(head), 3)
        bench.assert_as_alone(work, together)
        one_by_one = bench.together(work, row_by_row(head, len(work)), 3)
        drafted, alone = (
            [[d.id for s in steps for d in s.drafted] for steps in lanes] for lanes in (together, one_by_one)
        )
        assert drafted == alone and sum(map(len, drafted)) > 100


class Narrow:
    """A batch whose hidden states are cut to the width that the stored heads were made for."""

    def __init__(self, rows: LeanRows) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._rows, name)

    def forward(
        self, ids: Tensor, starts: Sequence[int], first: int = 0, rows: int | None = None, aux: tuple[int, ...] = ()
    ) -> Output:
        out = self._rows.forward(ids, starts, first, rows, (0, 1, 2) if aux else ())
        if aux:
            out.hidden = out.hidden.unflatten(-1, (3, -1))[..., : made.WIDTH].flatten(-2)
        return out
