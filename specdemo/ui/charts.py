"""What do the four charts draw? The figures of a run; the points of the race come with the panes."""

from __future__ import annotations

from typing import Any

from specdemo.metrics import LaneMetrics
from specdemo.race import Request
from specdemo.ui import figures
from specdemo.ui.parts import Part


def charts() -> Part:
    """The charts, hidden until there is something to draw."""
    return Part("charts", elem_id="sd-charts", elem_classes=["sd-part"])


def chart_figures(request: Request, baseline: LaneMetrics, speculative: LaneMetrics) -> dict[str, Any]:
    """What the charts' script reads."""
    written = speculative.tokens_per_step
    ahead = (baseline.seconds or 0) - (speculative.seconds or 0)
    return {
        "budget": request.max_new_tokens,
        "done": baseline.stop is not None and speculative.stop is not None,
        "clocks": {
            "baseline": figures.clock(baseline.seconds or 0),
            "speculative": figures.clock(speculative.seconds or 0),
        },
        "apart": ("chart.time.sooner" if ahead >= 0 else "chart.time.later", {"seconds": figures.clock(abs(ahead))}),
        "position": [round(rate, 3) for rate in speculative.acceptance_per_position],
        "drafting": speculative.steps_that_drafted,
        "wrote": [written[n] for n in range(1, max([*written, request.gamma + 1]) + 1)],
        "full": request.gamma,
        "costs": {"plain": _plain(baseline), "step": _step(speculative)},
    }


def _plain(lane: LaneMetrics) -> dict[str, Any] | None:
    """A plain step: its time, and the one token that it buys."""
    if not lane.target_passes or lane.decode_seconds is None:
        return None
    each = 1000 * lane.decode_seconds / lane.target_passes
    return {"width": round(each, 2), "ms": _ms(each), "each": _ms(each)}


def _step(lane: LaneMetrics) -> dict[str, Any] | None:
    """A speculative step: its time in three parts, and the tokens that it buys."""
    parts = (lane.draft_seconds, lane.verify_seconds, lane.other_seconds)
    tokens = lane.tokens_per_target_pass
    if not lane.target_passes or not tokens or None in parts:
        return None
    widths = [1000 * seconds / lane.target_passes for seconds in parts]
    whole = sum(widths)
    return {
        "width": round(whole, 2),
        "ms": _ms(whole),
        "tokens": f"{tokens:.2f}",
        "each": _ms(whole / tokens),
        "parts": [{"width": round(width, 3), "ms": _ms(width)} for width in widths],
    }


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
