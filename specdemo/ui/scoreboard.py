"""What does the scoreboard say of two lanes? Metrics and their comparison, turned into one small JSON value.

Nothing is measured here. Sentences go out as [key, parameters] of ui.text, so that the page can change its language.
"""

from __future__ import annotations

from typing import Any

from specdemo.decoding.steps import Origin, Parting, Why
from specdemo.metrics import COMPARED, Comparison, LaneMetrics, Sameness, Speed
from specdemo.race import Lane, Mode
from specdemo.recording import RaceRecord
from specdemo.ui import figures, remote_says
from specdemo.ui.parts import Part
from specdemo.ui.text import Sentence
from specdemo.ui.text.below import passed_on

MANY_IDLE_STEPS = 0.5  # share of steps without a draft from which the page says so
BUSY = 1.5  # plain steps of this run over those when the pair was loaded, from which the page says so
SHORT = 1024  # tokens up to which a plain step takes what it took over a few when the pair was loaded
MORE = 1.05  # of what its tokens a pass allow, from which a speedup is the machine's
EARLY = 8  # tokens of a lane before which a speedup is chance


def scoreboard() -> Part:
    """The scoreboard, before any run."""
    return Part("board", events=("attempt",), elem_id="sd-board", elem_classes=["sd-part"])


def message(key: str, **params: str | Sentence) -> dict[str, Any]:
    """A board that shows one sentence: what is awaited, or what is wrong. message: what another floor said of it."""
    wrong = key in ("refused", "failed", "unloaded") or key.startswith("refused.")
    return {"verdict": passed_on(key, **params), "mood": "refused" if wrong else "calm"}


def account(record: RaceRecord, comparison: Comparison, *, over: bool, stopped: bool) -> dict[str, Any]:
    """The board of a run under way, or over."""
    baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    speed, over_all = comparison.speed, over and not stopped
    shown = speed in COMPARED and not early(record, over=over_all)
    board: dict[str, Any] = {
        "verdict": verdict(record, comparison, over=over_all),
        "more": more(record, comparison, over=over, stopped=stopped),
        "mood": "fault" if speed is Speed.FAULT else "calm",
        "speed": figures.times(comparison.speedup) if shown else None,
        "wins": shown and speed is Speed.FASTER and record.known.here is None,
        "speedNote": ("remote.mixed.mark", {})
        if shown and record.known.here
        else speed_note(baseline, speculative, comparison, shown=shown, over=over),
        "clocks": remote_says.clocks(record.known),
        "figures": six_figures(baseline, speculative, comparison, over=over_all),
        "origins": _origins(speculative),
    }
    return board


def _origins(lane: LaneMetrics) -> dict[str, int]:
    """How many tokens wear each mark; none where nobody told who wrote them."""
    if not lane.drafts_told:
        return {}
    worn = {origin: lane.tokens_by_origin[origin] for origin in Origin if origin is not Origin.UNKNOWN}
    return worn | {"refused": lane.judged - lane.accepted}


def early(record: RaceRecord, *, over: bool) -> bool:
    """Whether a lane has written so little that a ratio would be chance."""
    return not over and min(record.metrics(lane).tokens for lane in Lane) < EARLY


def verdict(record: RaceRecord, comparison: Comparison, *, over: bool) -> Sentence:
    """What, by how much, why."""
    speed = comparison.speed
    if speed is Speed.FAULT:
        return fault(comparison)
    if speed in COMPARED and early(record, over=over):
        return ("live.early", {})
    said = remote_says.verdict(record, comparison, over=over) if record.known.remote else None
    if said is not None:
        return said
    if speed is Speed.NO_SPECULATION:
        return ("verdict.gamma0" if record.request.gamma == 0 else "verdict.none" if over else "live.none", {})
    if speed is None:
        if over:
            return ("verdict.short", {})
        baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
        first = record.request.mode is Mode.ONE_AFTER_ANOTHER and speculative.steps == 0 and baseline.steps > 0
        return ("verdict.first" if first else "starting", {})
    tense = "verdict" if over else "live"
    params = {"speedup": figures.times(comparison.speedup or 0)}
    if speed is not Speed.EQUAL:
        decimals = 1 if speed is Speed.FASTER else 2
        params |= {
            "verify": _shown(comparison.verify_seconds_per_pass, figures.milliseconds),
            "tokens": _shown(comparison.tokens_per_target_pass, lambda value: f"{value:.{decimals}f}"),
            "share": _shown(comparison.draft_share, figures.share),
            "needed": _shown(comparison.break_even_tokens_per_pass, lambda value: f"{value:.2f}"),
        }
    return (f"{tense}.{speed}", params)


def fault(comparison: Comparison) -> Sentence:
    """What is wrong with two texts that part where they may not."""
    at = str((comparison.first_difference or 0) + 1)
    parting = comparison.parting
    if parting is not None and parting.gap is None:
        return ("verdict.ended", {"at": at})
    if parting is None or comparison.bits_promised:
        return ("verdict.bits", {"at": at})
    return ("verdict.fault", {"at": at, "gap": figures.gap(parting.gap)})


def more(record: RaceRecord, comparison: Comparison, *, over: bool, stopped: bool) -> list[Sentence]:
    """Sentences behind the verdict: how it ended, and what the texts are to each other."""
    baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    temperature = record.request.params.temperature
    said: list[Sentence] = []
    if stopped:
        told = {lane: figures.count(record.metrics(lane).told_tokens) for lane in Lane}
        said.append(("verdict.stopped", {lane.value: n for lane, n in told.items()}))
    if speculative.fell_back_at is not None:
        said.append(("verdict.fellback", {"at": str(speculative.fell_back_at + 1)}))
    if not over:
        return said
    if record.known.remote:
        said += remote_says.more(record)
    n = str(comparison.first_difference or 0)
    if comparison.sameness is Sameness.ROUNDING_TIE and comparison.parting and comparison.parting.gap is not None:
        said.append(_tie(n, comparison.parting))
    elif comparison.sameness is Sameness.UNEXPLAINED:
        said.append(("verdict.unexplained", {"n": n}))
    elif comparison.sameness is Sameness.SAME_DISTRIBUTION:
        said.append(("verdict.sampled", {}))
    elif comparison.identical and temperature and baseline.tokens == speculative.tokens:
        said.append(("verdict.seeded", {"temperature": f"{temperature:g}"}))
    said += unsteady(record, comparison)
    unpaid = speculative.steps_without_draft[Why.DOES_NOT_PAY] / max(speculative.target_passes, 1)
    if comparison.speed is not Speed.NO_SPECULATION and unpaid >= MANY_IDLE_STEPS:
        said.append(("verdict.unpaid", {"share": figures.share(unpaid)}))
    return said


def unsteady(record: RaceRecord, comparison: Comparison) -> list[Sentence]:
    """Where the figures speak of the machine's moments, too: it was slow, or slower for one lane than for the other.

    No lane is faster than its tokens a pass: a pass that verifies takes as long as a plain one, or longer.
    """
    baseline, loaded = record.metrics(Lane.BASELINE), record.known.plain_seconds
    now = (baseline.decode_seconds or 0.0) / max(baseline.target_passes, 1)
    short = len(record.request.prompt_ids) + baseline.tokens <= SHORT
    said: list[Sentence] = []
    if loaded and short and now >= BUSY * loaded:
        said.append(("verdict.busy", {"now": figures.milliseconds(now), "loaded": figures.milliseconds(loaded)}))
    tokens, plain = comparison.tokens_per_target_pass, record.known.padding == 1.0 and not record.known.remote
    if plain and tokens and (comparison.speedup or 0.0) > MORE * tokens:
        said.append(("verdict.uneven", {"tokens": f"{tokens:.2f}"}))
    return said


def _tie(n: str, parting: Parting) -> Sentence:
    """Why a parting is a rounding tie: the gap, beside the distance of two numbers that this dtype can tell apart."""
    gap = {"n": n, "gap": figures.gap(parting.gap or 0)}
    if parting.spacing is None:
        return ("verdict.tie", gap)
    return ("verdict.tie.spaced", gap | {"dtype": parting.dtype, "spacing": figures.gap(parting.spacing)})


def speed_note(
    baseline: LaneMetrics, speculative: LaneMetrics, comparison: Comparison, *, shown: bool, over: bool
) -> Sentence | None:
    """Under the speedup: end to end once it is over, before that how far the clocks are."""
    if not shown:
        return None
    if over:
        end_to_end = comparison.end_to_end_speedup
        return None if end_to_end is None else ("speedup.note", {"e2e": figures.times(end_to_end)})
    seconds = min(baseline.seconds or 0, speculative.seconds or 0)
    return ("speedup.live", {"seconds": figures.clock(seconds)})


def six_figures(
    baseline: LaneMetrics, speculative: LaneMetrics, comparison: Comparison, *, over: bool
) -> dict[str, Any]:
    """The row of figures under the verdict."""
    rate = speculative.draft_acceptance_rate
    return {
        "baseline": _shown(baseline.tokens_per_second, figures.rate),
        "speculative": _shown(speculative.tokens_per_second, figures.rate),
        "acceptance": "–" if rate is None else f"{figures.share(rate)}\u00a0%",
        "acceptanceNote": None
        if rate is None
        else ("acceptance.note", {"accepted": str(speculative.accepted), "drafted": str(speculative.drafted)}),
        "length": _shown(speculative.mean_acceptance_length, lambda value: f"{value:.2f}"),
        "lengthNote": ("length.note", {}),
        "passes": str(speculative.target_passes) if comparison.drafts_told else f"≈ {speculative.target_passes}",
        "passesNote": ("passes.note", {"plain": str(max(speculative.tokens - 1, 0))})
        if comparison.drafts_told
        else ("remote.passes.note", {}),
        "same": sameness(baseline, speculative, comparison, over=over),
    }


def sameness(
    baseline: LaneMetrics, speculative: LaneMetrics, comparison: Comparison, *, over: bool
) -> dict[str, Any] | None:
    """The sixth figure: whether the texts are one, and if not, from where and why."""
    n, at = str(comparison.first_difference or 0), str((comparison.first_difference or 0) + 1)
    match comparison.sameness:
        case None:
            return None
        case Sameness.SAME_DISTRIBUTION:
            return {"kind": "drawn", "say": ("distribution", {}), "note": ("distribution.note", {})}
        case Sameness.IDENTICAL | Sameness.BIT_IDENTICAL:
            whole = over and baseline.tokens == speculative.tokens
            key = "same.live" if not whole else "same.bits" if comparison.bits_promised else "same"
            return {"kind": "same", "say": (key, {}), "note": (f"{key}.note", {"n": str(comparison.compared)})}
        case Sameness.ROUNDING_TIE:
            gap = _shown(comparison.parting.gap if comparison.parting else None, figures.gap)
            return {"kind": "tie", "say": ("tie", {"n": n}), "note": ("tie.note", {"gap": gap})}
        case Sameness.UNEXPLAINED:
            return {"kind": "tie", "say": ("parted", {"n": n}), "note": ("parted.note", {})}
        case Sameness.FAULT:
            return {"kind": "fault", "say": ("fault", {}), "note": ("fault.note", {"at": at})}


def _shown(value: float | None, write: Any) -> str:
    return "–" if value is None else write(value)
