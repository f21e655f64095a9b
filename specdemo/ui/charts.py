"""What do the charts draw? The figures of a run, and what the cost model makes of them; the race's points come with
the panes.
"""

from __future__ import annotations

from typing import Any

from specdemo.decoding.steps import Stop
from specdemo.metrics import COMPARED, Comparison, LaneMetrics, cost_model
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.ui import figures


def chart_figures(record: RaceRecord, comparison: Comparison) -> dict[str, Any]:
    """What the charts' script reads."""
    baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    written = speculative.tokens_per_step
    ahead = (baseline.seconds or 0) - (speculative.seconds or 0)
    return {
        "budget": record.request.max_new_tokens,
        "done": all(lane.stop not in (None, Stop.STOPPED, Stop.FAULT) for lane in (baseline, speculative)),
        "clocks": {
            "baseline": figures.clock(baseline.seconds or 0),
            "speculative": figures.clock(speculative.seconds or 0),
        },
        "apart": ("chart.time.sooner" if ahead >= 0 else "chart.time.later", {"seconds": figures.clock(abs(ahead))}),
        "position": [round(rate, 3) for rate in speculative.acceptance_per_position],
        "drafting": speculative.steps_that_drafted,
        "told": speculative.drafts_told,
        "wrote": [written[n] for n in range(1, max([*written, record.request.gamma + 1]) + 1)],
        "full": record.request.gamma,
        "costs": {"plain": _plain(baseline), "step": _step(speculative, whole=record.known.remote)},
        "model": _model(record, comparison),
        "paid": _paid(record, comparison),
    }


def _model(record: RaceRecord, comparison: Comparison) -> dict[str, float] | None:
    """The cost model that this run measured, and where the run itself stands."""
    baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    model = cost_model(baseline, speculative, padding=record.known.padding)
    if model is None or comparison.speed not in COMPARED or record.known.remote:
        return None
    measured = {"gamma": record.request.gamma, "speedup": round(comparison.speedup or 0, 3)}
    names = ("alpha", "c", "slope", "o", "drafts")
    return measured | {name: round(getattr(model, name), 4) for name in names}


def _paid(record: RaceRecord, comparison: Comparison) -> dict[str, float] | None:
    """Tokens a second of paid time: the prompt's pass included, the baseline as fast as it can be had."""
    rate, speedup = record.metrics(Lane.SPECULATIVE).end_to_end_tokens_per_second, comparison.end_to_end_speedup
    if not rate or not speedup or comparison.speed not in COMPARED or record.known.here:
        return None
    return {"baseline": round(rate / speedup, 3), "speculative": round(rate, 3)}


def _plain(lane: LaneMetrics) -> dict[str, Any] | None:
    """A plain step: its time, and the one token that it buys."""
    if not lane.target_passes or lane.decode_seconds is None:
        return None
    each = 1000 * lane.decode_seconds / lane.target_passes
    return {"width": round(each, 2), "ms": _ms(each), "each": _ms(each)}


def _step(lane: LaneMetrics, *, whole: bool) -> dict[str, Any] | None:
    """A speculative step: its time in three parts, and the tokens that it buys. whole: nobody tells the parts."""
    parts = (lane.draft_seconds, lane.verify_seconds, lane.other_seconds)
    tokens = lane.tokens_per_target_pass
    if not lane.target_passes or not tokens or None in parts:
        return None
    widths = [1000 * seconds / lane.target_passes for seconds in parts]
    each = sum(widths)
    return {
        "width": round(each, 2),
        "ms": _ms(each),
        "tokens": f"{tokens:.2f}",
        "each": _ms(each / tokens),
        "parts": None if whole else [{"width": round(width, 3), "ms": _ms(width)} for width in widths],
    }


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
