"""What does one step look like from near by? Everything its Trace knows of it, fetched when somebody asks for it.

Nothing is computed that the step did not already hold, but for the noise of a place, which is a function of the seed.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import UNTOLD, Drafted, Origin, Rule, Step, Token, Verdict
from specdemo.race import Lane
from specdemo.recording import Recording, Wrote
from specdemo.ui.parts import Part
from specdemo.ui.runs import Run, Runs
from specdemo.ui.text import Sentence

MILLI = 1000


def glass() -> Part:
    """The panel, closed until a step is asked for."""
    return Part("glass", events=("look",), elem_id="sd-glass", elem_classes=["sd-part"])


def answer(runs: Runs, visitor: str, asked: Any) -> dict[str, Any]:
    """What the panel asked for: a run, a lane and a step (from 1); where there is none, a sentence that says so."""
    try:
        number, lane, step = int(asked["run"]), Lane(asked["lane"]), int(asked["step"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return {"missing": "glass.none"}
    run = runs.find(visitor, number)
    missing = "glass.gone" if run is None else "glass.none"
    if run is None or not 1 <= step <= len(run.record.lanes[lane].written):
        return {"run": number, "lane": lane, "step": step, "missing": missing}
    return view(run, lane, step)


def view(run: Run, lane: Lane, number: int) -> dict[str, Any]:
    """The lane's step of that number."""
    recording = run.record.lanes[lane]
    wrote = recording.written[number - 1]
    request = run.record.request
    ends = list(accumulate(len(one.step.tokens) for one in recording.written[:number]))
    before = ends[-1] - len(wrote.step.tokens)
    if run.record.known.served(lane):
        return _remote(run, lane, number, before + 1, ends[-1])
    kind = _kind(request.rule, request.params, wrote.step)
    rows = _rows(kind, wrote, request.params, len(request.prompt_ids) + before)
    return {
        "run": run.number,
        "lane": lane,
        "step": number,
        "kind": kind,
        "temperature": request.params.temperature,
        "from": before + 1,
        "to": ends[-1],
        "rows": rows,
        "wrote": [_written(token, text) for token, text in zip(wrote.step.tokens, _texts(wrote), strict=True)],
        "residual": [[text, p, own] for text, p, own in _residual(wrote)],
        "mass": wrote.step.residual_mass,
        "times": _times(wrote.step),
        "plain": _plain(run.record.lanes[Lane.BASELINE]),
        "why": wrote.step.why,
        "notes": _notes(kind, wrote.step, rows),
    }


def _remote(run: Run, lane: Lane, number: int, first: int, last: int) -> dict[str, Any]:
    """A step on a server, which tells how many tokens were drafted and accepted, and no more."""
    wrote = run.record.lanes[lane].written[number - 1]
    step, seconds = wrote.step, wrote.step.seconds
    counts = {"accepted": str(step.accepted), "drafted": str(len(step.drafted))}
    unknown = any(token.origin is Origin.UNKNOWN for token in step.tokens)
    note = "remote.glass.unknown" if unknown else "remote.glass.drafted" if step.drafted else f"glass.why.{step.why}"
    return {
        "run": run.number,
        "lane": lane,
        "step": number,
        "kind": "plain",
        "judged": "remote.glass",
        "temperature": run.record.request.params.temperature,
        "from": first,
        "to": last,
        "rows": [],
        "wrote": [_written(token, text) for token, text in zip(step.tokens, _texts(wrote), strict=True)],
        "residual": [],
        "mass": None,
        "times": None if seconds is None else {"whole": round(MILLI * seconds, 3)},
        "plain": None if UNTOLD in (token.id for token in step.tokens) else _plain(run.record.lanes[Lane.BASELINE]),
        "why": step.why,
        "notes": [(note, counts if step.drafted and not unknown else {})],
    }


def _kind(rule: Rule, params: SamplingParams, step: Step) -> str:
    """Which of the views: how the drafts were judged, or that there were none."""
    if not step.drafted:
        return "plain"
    if params.temperature == 0:
        return "greedy"
    return {Rule.SHARED_NOISE: "shared", Rule.REJECTION: "rejection", Rule.BLOCK: "block"}[rule]


def _texts(wrote: Wrote) -> tuple[str, ...]:
    return (*wrote.texts[:-1], wrote.end) if wrote.end else wrote.texts


def _written(token: Token, text: str) -> dict[str, Any]:
    return {"id": token.id, "text": text, "origin": token.origin, "p": token.p, "raw": token.p_raw}


def _rows(kind: str, wrote: Wrote, params: SamplingParams, position: int) -> list[dict[str, Any]]:
    """One row a draft. position: in the sequence, of the first draft."""
    rows = []
    for i, (drafted, text) in enumerate(zip(wrote.step.drafted, wrote.drafts, strict=True)):
        row = {
            "id": drafted.id,
            "text": text,
            "q": drafted.q,
            "p": drafted.p,
            "draw": drafted.draw if kind in ("rejection", "block") else None,
            "chance": drafted.chance if kind in ("rejection", "block") else None,
            "verdict": drafted.verdict,
        }
        own = _own(wrote, i, drafted, text) if kind in ("shared", "greedy") else None
        if own is not None:
            row["own"] = own
            if kind == "shared":
                noise = _noise(params.seed, position + i, [drafted.id, own["id"]])
                row["score"], own["score"] = _score(drafted.p, noise[0]), _score(own["p"], noise[1])
        rows.append(row)
    return rows


def _own(wrote: Wrote, i: int, drafted: Drafted, text: str) -> dict[str, Any] | None:
    """The target's own token at this place: the draft itself where it agreed, else the one that it wrote instead."""
    if drafted.verdict is Verdict.UNREACHED:
        return None
    if drafted.verdict is Verdict.ACCEPTED:
        kept = wrote.step.tokens[i] if i < len(wrote.step.tokens) else None  # behind an end of text nothing is kept
        return {"id": drafted.id, "text": text, "p": drafted.p, "raw": kept.p_raw if kept else None}
    if i < len(wrote.step.tokens):
        token = wrote.step.tokens[i]
        return {"id": token.id, "text": _texts(wrote)[i], "p": token.p, "raw": token.p_raw}
    return None  # it was cut off


def _noise(seed: int, position: int, ids: list[int]) -> list[float]:
    """The Gumbel noise g of these token ids at this place: what both sides add to their log-probabilities."""
    import torch  # here, since the page stands without it and it takes seconds

    from specdemo.decoding.sampling import Stream, exponential, noise_keys

    keys = noise_keys(seed, Stream.TARGET, [position])
    return (-exponential(keys, torch.tensor(ids, dtype=torch.int32)).log())[0].tolist()


def _score(p: float | None, noise: float) -> float | None:
    """log p + g; None where p is unknown or 0, which no noise lifts."""
    return round(math.log(p) + noise, 3) if p else None


def _residual(wrote: Wrote) -> list[tuple[str, float, bool]]:
    """What the last token was drawn from: the likeliest tokens, and whether it was this one."""
    own = wrote.step.tokens[-1].id if wrote.step.tokens else None
    tops = zip(wrote.step.residual_top, wrote.residual, strict=True)
    return [(text, p, token_id == own) for (token_id, p), text in tops]


def _times(step: Step) -> dict[str, float] | None:
    """Milliseconds of the three parts of the step."""
    if step.seconds is None:
        return None
    parts = {"draft": step.draft_seconds, "verify": step.verify_seconds, "other": step.other_seconds}
    return {name: round(MILLI * seconds, 3) for name, seconds in parts.items()}


def _plain(baseline: Recording) -> float | None:
    """Milliseconds of the baseline's mean plain step in the same run."""
    lane = baseline.metrics
    return MILLI * lane.decode_seconds / lane.target_passes if lane.target_passes and lane.decode_seconds else None


def _notes(kind: str, step: Step, rows: list[dict[str, Any]]) -> list[Sentence]:
    """What happened, in sentences."""
    if kind == "plain":
        return [(f"glass.why.{step.why}", {})]
    said: list[Sentence] = []
    stood, drafted = step.accepted, len(step.drafted)
    fallen = next((row for row in rows if row["verdict"] is Verdict.REFUSED), None)
    if fallen is not None and stood and kind != "block":
        said.append(("glass.note.stood", {"n": str(stood)}))
    if fallen is None:
        said.append(("glass.note.full", {"n": str(drafted)}))
    elif kind == "block":
        said.append(("glass.note.block", {"n": str(stood), "k": str(drafted)}))
    elif kind == "rejection":
        params = {name: _number(fallen[name]) for name in ("draw", "p", "q", "chance")}
        said.append(("glass.note.rejection", {"i": str(stood + 1)} | params))
    elif "own" in fallen:
        tokens = {"draft": _quoted(fallen["text"]), "own": _quoted(fallen["own"]["text"])}
        said.append((f"glass.note.{kind}", {"i": str(stood + 1)} | tokens))
    if drafted - step.judged and kind != "block":
        said.append(("glass.note.unreached", {"n": str(drafted - step.judged)}))
    if len(step.tokens) <= stood:
        said.append(("glass.note.cut", {"n": str(stood + 1 - len(step.tokens))}))
    return said


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _quoted(text: str) -> str:
    """A token in a sentence: white space is made visible."""
    return f"“{text.replace(' ', '·').replace(chr(10), '⏎').replace(chr(9), '⇥') or '∅'}”"
