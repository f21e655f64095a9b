"""What explains a ratio: a side's speed, acceptance, and where the time of one pass goes. Medians over the repeats."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from specdemo.bench.measure import Repeat
from specdemo.bench.sides import Sample


def figures_of(repeats: Sequence[Repeat], name: str) -> dict[str, float]:
    """Figures of one side, medians over the repeats; those it cannot tell are left out."""
    each = [_figures(repeat, name) for repeat in repeats]
    return {key: median(figures[key] for figures in each) for key in each[0]}


def outside_share(samples: Sequence[Sample]) -> float:
    """Share of the time after the first pass that is spent outside the models' forwards."""
    return 1 - sum(sample.forward_seconds for sample in samples) / sum(sample.seconds for sample in samples)


def _figures(repeat: Repeat, name: str) -> dict[str, float]:
    samples = repeat.samples[name]
    passes = sum(sample.passes for sample in samples)
    per_pass = 1000 / passes if passes else 0.0  # seconds of all passes -> milliseconds of one
    figures = {
        "tokens/s": repeat.speed(name),
        "whole-call tokens/s": repeat.whole_speed(name),
        "tokens per target pass": sum(sample.decoded for sample in samples) / max(passes, 1),
        "ms per pass": sum(sample.seconds for sample in samples) * per_pass,
    }
    if all(sample.forward_seconds is not None for sample in samples):
        inside = sum(sample.forward_seconds for sample in samples) * per_pass
        figures |= {"ms inside the forwards": inside, "ms outside": figures["ms per pass"] - inside}
    lanes = [sample.metrics for sample in samples if sample.metrics is not None]
    if len(lanes) < len(samples):
        return figures
    for part in ("draft", "verify", "other"):
        figures[f"ms {part}"] = sum(getattr(lane, f"{part}_seconds") for lane in lanes) * per_pass
    drafted = sum(lane.drafted for lane in lanes)
    if drafted:
        figures["acceptance"] = sum(lane.accepted for lane in lanes) / drafted
    return figures
