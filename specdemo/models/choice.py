"""In which precision does this machine decode a model fastest? Measured, not assumed: a few plain steps in each.

Only precisions that the device multiplies without emulation are candidates. What was measured is shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import torch

from specdemo.decoding.linear import halves, packs
from specdemo.decoding.runner import Runner
from specdemo.models.loading import LoadedModel, Source, load_model
from specdemo.models.memory import free_bytes, part
from specdemo.models.pair_options import AUTO
from specdemo.models.precision import Precision, parse_precision, stored_quantisation
from specdemo.models.progress import Progress, silent
from specdemo.models.runners import make_runner

HELD, WARM_UP = 64, 3  # tokens before the measured steps; steps before them
STEPS, SECONDS = 16, 0.5  # measured: so many, or as many as take so long


@dataclass(frozen=True, slots=True)
class Choice:
    """The precision taken. measured: seconds of a plain step in each candidate; none where it was asked for."""

    precision: Precision
    measured: dict[Precision, float] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.measured:
            return "as asked"
        steps = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in self.measured.items())
        why = "the fastest plain step" if len(self.measured) > 1 else "the only one native to this device"
        return f"chosen as {why} ({steps})"


def load_chosen(
    source: Source, name: str, device: torch.device, progress: Progress = silent, double_quantisation: bool = False
) -> tuple[LoadedModel, Choice]:
    """The model in the precision of this name, or for "auto" in the fastest. Raises ModelUnavailable."""
    stored = stored_quantisation(source.config)
    if name != AUTO or stored:
        precision = parse_precision(stored if name == AUTO else name)
        return load_model(source, precision, device, progress, double_quantisation), Choice(precision)
    measured: dict[Precision, float] = {}
    loaded = None
    for precision in _that_fit(source, candidates(device), device):
        loaded = None  # one at a time in memory
        loaded = load_model(source, precision, device, progress)
        progress(None, f"Measuring a plain step in {precision}")
        measured[precision] = plain_step(make_runner(loaded.model, check=False))
    best = min(measured, key=measured.get)
    if best is not precision:  # the last one measured is not the winner: it goes before the winner comes back
        loaded = None
        loaded = load_model(source, best, device, progress)
    return loaded, Choice(best, measured)


def candidates(device: torch.device) -> list[Precision]:
    """Float precisions that this device multiplies well, the likeliest winner last."""
    if device.type == "cuda":
        half = Precision.BF16 if torch.cuda.is_bf16_supported(including_emulation=False) else Precision.FP16
        return [Precision.FP32, half]
    if packs(device, torch.bfloat16):
        return [Precision.FP32, Precision.BF16]
    return [Precision.FP32, *([Precision.FP16] if halves(device, torch.float16) else [])]


def plain_step(runner: Runner) -> float:
    """Seconds of a forward of one row: the median of a few. Leaves the runner empty."""
    return plain_steps([runner])[0]


def plain_steps(runners: Sequence[Runner]) -> list[float]:
    """Seconds of each runner's forward of one row, the median of a few, taken in turns. Leaves the runners empty."""
    held = min(HELD, *(runner.max_length - 1 for runner in runners))
    vocab = min(runner.vocab_size for runner in runners)
    ids = torch.randint(vocab, (held + 1,), generator=torch.Generator().manual_seed(0)).to(runners[0].device)
    for runner in runners:
        runner.begin(len(ids))
        runner.forward(ids[:held], 1)
    seconds: list[list[float]] = [[] for _ in runners]
    while len(seconds[0]) < WARM_UP + STEPS and sum(map(sum, seconds)) < SECONDS * len(runners):
        for taken, runner in zip(seconds, runners, strict=True):
            begun = time.perf_counter()
            runner.forward(ids[held:], 1).logits.argmax().item()  # waits for the device
            taken.append(time.perf_counter() - begun)
            runner.rewind(held)
    for runner in runners:
        runner.rewind(0)
    return [median(taken[WARM_UP:] or taken) for taken in seconds]


def _that_fit(source: Source, precisions: Sequence[Precision], device: torch.device) -> Sequence[Precision]:
    """Those whose weights fit into the free memory while they are packed; the last one in any case."""
    if len(precisions) == 1:
        return precisions
    free = free_bytes(device)
    weights = {p: part(source.config, p, device) for p in precisions[:-1]}
    return [p for p, one in weights.items() if one.weights + one.packing < free] + list(precisions[-1:])
