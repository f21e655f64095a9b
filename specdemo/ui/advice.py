"""Why was it as fast as it was, and what could be tried instead? Read off the run's own figures.

A reason is a sentence. An attempt is a setting with what the cost model, or the drafter's nature, says of it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from specdemo.decoding.steps import DraftLength, Why
from specdemo.metrics import COMPARED, Comparison, LaneMetrics, Speed, cost_model
from specdemo.models.pair_options import EMBEDDED, MAX_GAMMA, NGRAM
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.ui import figures
from specdemo.ui.text import Sentence

MISSES = 0.5  # share of steps in which lookup found nothing, from which the text is said to copy little
RARE = 0.5  # α below which the target is said to disagree
DEAR = 0.25  # share of drafting in the time, from which it is named as the reason
HEAVY = 1.3  # plain steps for a verification, from which it is
REASONS = 2
WORTH_TRYING = 1.03  # predicted speedup


def reasons(record: RaceRecord, comparison: Comparison) -> list[Sentence]:
    """What explains the speed of a run that is over; at most two sentences, the heaviest first."""
    speculative = record.metrics(Lane.SPECULATIVE)
    passes = speculative.target_passes
    if comparison.speed not in COMPARED or not passes or record.known.remote:
        return []
    said: list[Sentence] = []
    found = 1 - speculative.steps_without_draft[Why.NO_MATCH] / passes
    slower = comparison.speed is Speed.SLOWER
    if found <= 1 - MISSES:
        said.append(
            ("reason.found" if comparison.speed is Speed.FASTER else "reason.copies", {"share": figures.share(found)})
        )
    if slower and speculative.alpha is not None and speculative.alpha < RARE:
        said.append(("reason.foresee", {"alpha": figures.share(speculative.alpha)}))
    if slower:
        said += _costs(record, comparison, speculative)
    return said[:REASONS]


def _costs(record: RaceRecord, comparison: Comparison, lane: LaneMetrics) -> list[Sentence]:
    """The part of a step that is dear."""
    model = cost_model(record.metrics(Lane.BASELINE), lane, padding=record.known.padding)
    if model is None:
        return []
    said: list[Sentence] = []
    if (comparison.draft_share or 0) >= DEAR:
        said.append(("reason.dear", {"share": figures.share(comparison.draft_share or 0), "c": f"{model.c:.2f}"}))
    verification = 1 + model.slope * lane.drafted / max(lane.steps_that_drafted, 1)
    if verification >= HEAVY:
        said.append(("reason.heavy", {"v": f"{verification:.1f}"}))
    return said


def attempts(record: RaceRecord, comparison: Comparison, drafters: Collection[str]) -> list[dict[str, Any]]:
    """Settings to try after a run that gained nothing. set: their names and values in Settings.

    drafters: what Settings offer for this target.
    """
    request, speculative = record.request, record.metrics(Lane.SPECULATIVE)
    speed = comparison.speed
    if speed not in (Speed.SLOWER, Speed.EQUAL, Speed.NO_SPECULATION) or request.gamma == 0 or record.known.remote:
        return []
    made = []
    model = cost_model(record.metrics(Lane.BASELINE), speculative, padding=record.known.padding)
    gamma, predicted = model.best(MAX_GAMMA) if model else (0, 1.0)
    if gamma not in (0, request.gamma) and predicted >= max(WORTH_TRYING, comparison.speedup or 0):
        note = ("try.predicted", {"speedup": figures.times(predicted)})
        made.append(_attempt(("try.gamma", {"gamma": str(gamma)}), note, gamma=gamma))
    if speed is not Speed.NO_SPECULATION and request.draft_length is DraftLength.FIXED:
        made.append(_attempt(("try.adaptive", {}), ("try.adaptive.what", {}), draft_length=DraftLength.COST_OPTIMAL))
    return made + _drafters(record, speculative, drafters)


def _drafters(record: RaceRecord, speculative: LaneMetrics, drafters: Collection[str]) -> list[dict[str, Any]]:
    """Another drafter than the one that ran."""
    name = record.known.pair.get("drafter", "")
    looks_up = speculative.steps_without_draft[Why.NO_MATCH] > 0 or name.startswith(("n-gram", NGRAM))
    if not looks_up:
        return [_attempt(("try.lookup", {}), ("try.lookup.what", {}), drafter=NGRAM)]
    return [_attempt(("try.head", {}), ("try.head.what", {}), drafter=EMBEDDED)] if EMBEDDED in drafters else []


def _attempt(say: Sentence, note: Sentence, **settings: Any) -> dict[str, Any]:
    return {"say": say, "note": note, "set": settings}
