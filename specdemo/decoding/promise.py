"""May this runner claim the same bits in both lanes? Asked of the machine at load, not assumed.

A plain step is one row, a verification is γ + 1 rows. Where every row has the same bits either way, and leaves the
same keys and values behind, the two lanes cannot part. Otherwise they are equal up to rounding, and a near-tie may
part them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from specdemo.decoding.runner import Runner

# Held tokens before the rows. The steps after them cross 32, 256, 384 and 512 keys: where blocks of keys end.
CONTEXTS = (5, 30, 254, 382, 510)
STEPS = 3  # plain steps that rows are compared with


class Promise(StrEnum):
    """What may be claimed of two lanes under greedy and shared-noise sampling."""

    BIT_IDENTICAL = "bit-identical"
    EQUAL_UP_TO_ROUNDING = "equal up to rounding"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was measured. compared: rows; differing: those with other bits; largest: biggest difference of a logit."""

    promise: Promise
    compared: int
    differing: int
    largest: float
    contexts: tuple[int, ...]
    rows: tuple[int, ...]

    def __str__(self) -> str:
        contexts, rows = (", ".join(map(str, numbers)) for numbers in (self.contexts, self.rows))
        measured = f"{self.compared} rows compared after {contexts} tokens, {rows} rows at a time"
        if self.promise is Promise.BIT_IDENTICAL:
            return f"{self.promise} ({measured}: every bit the same)"
        return f"{self.promise} ({measured}: {self.differing} differ, by {self.largest:.1e} at most)"


@torch.inference_mode()
def probe(runner: Runner, gamma: int = 16) -> Probe:
    """Compare plain steps with forwards of 2, 5, 9 and up to gamma + 1 rows, half of these numbers after each context.

    It takes about a second at 25 ms a step. Leaves the runner empty.
    """
    most = max(2, min(gamma + 1, runner.max_length // 2))  # a short context leaves room for what is compared
    rows = tuple(sorted({min(n, most) for n in (2, 5, 9, 17)} | {most}))
    longest = max(*rows, STEPS) + 1
    contexts = tuple(c for c in CONTEXTS if c + longest <= runner.max_length) or (1,)
    ids = torch.randint(runner.vocab_size, (contexts[-1] + longest,), generator=torch.Generator().manual_seed(0))
    ids = ids.to(runner.device)
    runner.begin(len(ids))
    pairs = []
    for turn, context in enumerate(contexts):
        runner.rewind(min(runner.length, context))  # what plain steps left there stays: both ways go on from it
        if context > runner.length:
            runner.forward(ids[runner.length : context], 0)
        pairs += _compare(runner, ids, context, rows[turn % 2 :: 2])
    runner.rewind(0)
    differing = sum(not torch.equal(alone, among) for alone, among in pairs)
    largest = max((alone - among).abs().max().item() for alone, among in pairs)
    promise = Promise.EQUAL_UP_TO_ROUNDING if differing else Promise.BIT_IDENTICAL
    return Probe(promise, len(pairs), differing, largest, contexts, rows)


def _compare(runner: Runner, ids: Tensor, context: int, rows: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """The same positions, computed one by one and n at a time; and the step after n rows, which reads their keys."""
    plain = [runner.forward(ids[i : i + 1], 1).logits[0].clone() for i in range(context, context + STEPS)]
    pairs = []
    for n in rows:
        runner.rewind(context)
        among = runner.forward(ids[context : context + n], n).logits
        pairs += [(plain[i], among[i].clone()) for i in range(min(n, STEPS))]
        if n < STEPS:
            after = runner.forward(ids[context + n : context + n + 1], 1).logits[0]
            pairs.append((plain[n], after.clone()))
    return pairs
