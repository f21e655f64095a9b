"""Batches on a world whose costs are known, and the point where speculation stops paying in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from specdemo.decoding.runner import Output
from specdemo.lab import batch as lab
from specdemo.lab.batch import BATCH, BatchOptions, batches_of, crossing, speedup, throughput
from specdemo.lab.experiment import LabRefused, Row
from specdemo.lab.prompt_files import PromptSet
from specdemo.models.lean import lean_runner
from tests.lab.rows import rows_of
from tests.lab.worlds import CERTAIN, World, at_its_own_time, first
from tests.threads import one_thread  # noqa: F401
from tests.tiny import tiny_llama

NEW = 1 + 3 * 10  # three tokens a pass where two of a draft are right


class Rows:
    """The certain target over many sequences. A forward costs 1 for the weights and `slope` for each of its rows."""

    vocab_size, max_length, device = len(CERTAIN), 1 << 20, torch.device("cpu")

    def __init__(self, world: World, slope: float) -> None:
        self.world, self.slope, self.sizes = world, slope, []

    def begin(self, rows: int, columns: int) -> None:
        self.begun = rows, columns

    def forward(
        self, ids: Tensor, starts: Sequence[int], first: int = 0, rows: int | None = None, aux: tuple[int, ...] = ()
    ) -> Output:
        assert len(starts) == len(ids) and max(starts) + ids.shape[1] <= self.begun[1]
        if rows is None:  # a round; prompts cost nothing here
            self.world.now += 1 + self.slope * ids.numel()
            self.sizes.append(len(ids))
        return Output(CERTAIN[ids if rows is None else ids[:, -rows:]])

    def move(self, source: int, target: int, length: int) -> None:
        assert source > target


def measured(
    monkeypatch: pytest.MonkeyPatch, prompts: PromptSet, slope: float, c: float, **options: object
) -> list[Row]:
    world = at_its_own_time(World(first(2), c=c), monkeypatch)
    monkeypatch.setattr(lab, "rows_runner", lambda runner: Rows(world, slope))
    return rows_of(BATCH, world, BatchOptions(prompts=prompts, gamma=4, max_new_tokens=NEW, **options))


def test_throughput_and_latency_are_what_the_costs_make_them(
    prompts: PromptSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = measured(monkeypatch, prompts, slope=0.1, c=0.05, batches=(1, 4), requests=4)
    for row, size in zip(rows, (1, 4), strict=True):
        plain, draft, last = 1 + 0.1 * size, 1 + 0.1 * 5 * size + 0.05 * 4 * size, 1 + 0.1 * 3 * size + 0.05 * 2 * size
        batches = 4 // size
        assert row["requests"] == 4 and row["faults"] == row["ties"] == 0
        assert throughput(row, "plain") == pytest.approx(size / plain)
        assert row["drafted rounds"] == 10 * batches
        seconds = 9 * draft + last  # of ten rounds; the last one drafts two only, since three tokens are left
        assert throughput(row, "drafted") == pytest.approx(size * 30 / seconds)
        assert row["plain latency s"] == pytest.approx(30 * plain) == row["plain longest latency s"]
        assert row["drafted latency s"] == pytest.approx(seconds)
        assert speedup(row) == pytest.approx(30 * plain / seconds)
    assert BATCH.table(rows)[1]["mean acceptance length"] == "3.00"


def test_it_says_where_speculation_stops_paying(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """3 tokens for (1 + 0.1 * 5 B) against one for (1 + 0.1 B): equal at B = 10."""
    rows = measured(monkeypatch, prompts, slope=0.1, c=0.0, batches=(1, 8, 16))
    said = BATCH.findings(rows)
    assert said[0].startswith("Speculation stops paying at a batch of about 1") and "at 16" in said[0]
    at = crossing([(row["batch"], speedup(row)) for row in rows])
    assert 9 < at < 12, at
    assert said[-1] == "96 answers of batches compared with the same request alone: all are the same, token by token."


def test_a_crossing_lies_between_sizes_on_a_logarithmic_scale() -> None:
    assert crossing([(1, 2.0), (4, 1.5), (16, 0.5)]) == pytest.approx(8)
    assert crossing([(1, 2.0), (4, 1.0), (16, 0.5)]) == pytest.approx(4)
    assert crossing([(1, 0.9), (4, 0.8)]) is None and crossing([(1, 1.2), (4, 1.1)]) is None


def test_rows_that_end_sooner_leave_and_wait_less(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """An end of text that the three prompts meet after different numbers of tokens."""
    world = at_its_own_time(World(first(0), c=0.0, eos_ids=frozenset({0})), monkeypatch)
    made = Rows(world, 0.0)
    monkeypatch.setattr(lab, "rows_runner", lambda runner: made)
    (row,) = rows_of(BATCH, world, BatchOptions(prompts=prompts, gamma=4, max_new_tokens=20, batches=(3,)))
    assert row["faults"] == 0 and row["plain tokens"] == row["drafted tokens"]
    assert row["plain latency s"] < row["plain longest latency s"] == row["plain s"]
    assert sorted(set(made.sizes)) != [3]


def test_every_size_answers_the_same_requests() -> None:
    assert batches_of([1, 2, 3], 2) == [[1, 2], [3, 1]] and batches_of([1, 2, 3, 4], 4) == [[1, 2, 3, 4]]


def test_a_row_that_writes_other_words_is_a_fault(prompts: PromptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Rows):
        def forward(
            self, ids: Tensor, starts: Sequence[int], first: int = 0, rows: int | None = None, aux=()
        ) -> Output:
            out = super().forward(ids, starts, first, rows, aux)
            return Output(out.logits.roll(1, -1)) if len(ids) == 3 else out

    world = at_its_own_time(World(first(2)), monkeypatch)
    monkeypatch.setattr(lab, "rows_runner", lambda runner: Wrong(world, 0.0))
    rows = rows_of(BATCH, world, BatchOptions(prompts=prompts, gamma=4, max_new_tokens=9, batches=(1, 3)))
    assert [row["faults"] for row in rows] == [0, 6]
    assert BATCH.findings(rows)[-1].startswith("FAULT: 12 answers")


def test_what_cannot_be_batched_is_refused_in_a_sentence(prompts: PromptSet) -> None:
    with pytest.raises(LabRefused, match="--requests"):
        BATCH.cells(BatchOptions(prompts=prompts, batches=(4,), requests=2))
    world = World()
    world.target.notice = "The lean forward does not know it."
    with pytest.raises(LabRefused, match=r"does not know it\. Take a Llama-like"):
        next(BATCH.run(world, BatchOptions(prompts=prompts), [{"batch": 1}]))
    assert lab.rows_runner(lean_runner(tiny_llama())).vocab_size == 256
