"""What is left to read of a run? A row of the table, and files: JSON to replay, CSV to count, Markdown to show."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from specdemo import trace_files
from specdemo.decoding.steps import Step, Stop
from specdemo.metrics import COMPARED, LaneMetrics
from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.ui import advice, figures, scoreboard
from specdemo.ui.runs import Run
from specdemo.ui.text import Sentence, say, tell

PROMPT_SHOWN = 120  # characters of it in a row
COUNTS = ("drafted", "accepted", "judged", "gamma", "why", "kv_length")
COLUMNS = ("lane", "step", "clock_s", "tokens", "text", *COUNTS, "draft_ms", "verify_ms", "other_ms", "stop")


def row(run: Run, source: str = "run") -> dict[str, Any]:
    """Of the table: figures to sort by, and as they are written. source: run, recorded, or file."""
    record, comparison = run.record, run.record.comparison
    baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    counted = comparison.speed in COMPARED
    rate, length = speculative.draft_acceptance_rate, speculative.mean_acceptance_length
    return {
        "run": run.number,
        "source": source,
        "prompt": _short(record.prompt),
        "pair": pair_name(record),
        "gamma": record.request.gamma,
        "rule": record.request.rule,
        "temperature": record.request.params.temperature,
        "speedup": round(comparison.speedup, 4) if counted and comparison.speedup else None,
        "e2e": round(comparison.end_to_end_speedup, 4) if counted and comparison.end_to_end_speedup else None,
        "unlike": record.known.here is not None,
        "verdict": comparison.speed,
        "acceptance": None if rate is None else round(rate, 4),
        "length": None if length is None else round(length, 2),
        "passes": speculative.target_passes if speculative.drafts_told else None,
        "tokens": speculative.told_tokens,
        "baseline": _rounded(baseline.tokens_per_second),
        "speculative": _rounded(speculative.tokens_per_second),
        "same": comparison.sameness,
        "device": device_name(record),
        "date": record.known.environment.get("date", ""),
    }


def replayed(board: dict[str, Any], record: RaceRecord, number: int, speed: float) -> dict[str, Any]:
    """What a replay changes on the board: it says what it is, then what the race came to, and withholds the accent.

    number: of the run that plays again.
    """
    facts = record.known.environment
    date = facts.get("date", "").split(" ")[0]
    params = {"speed": f"@replay.{speed:g}", "device": device_name(record), "date": f"#{date}" if date else "–"}
    said = ("replay.says", params)
    asked = ("replay.asked", {"prompt": f"“{_short(record.prompt)}”"})
    return {
        "verdict": said,
        "more": [asked, board["verdict"], *board["more"]],
        "wins": False,
        "replay": speed,
        "of": number,
    }


def _short(prompt: str) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= PROMPT_SHOWN else f"{line[: PROMPT_SHOWN - 1]}…"


def pair_name(record: RaceRecord) -> str:
    """Target and drafter, as they were loaded."""
    pair = record.known.pair
    return " · ".join(pair[name] for name in ("target", "drafter") if name in pair)


def device_name(record: RaceRecord) -> str:
    """What it ran on: the accelerator, or the processor and how many threads of it."""
    facts = record.known.environment
    if facts.get("device", "cpu") != "cpu":
        return facts["device"]
    threads = facts.get("torch threads")
    return facts.get("cpu", "CPU") + (f" ×{threads}" if threads else "")


def as_json(record: RaceRecord) -> str:
    """The race's file, which replays."""
    return trace_files.dump(record.file()).decode()


def as_csv(record: RaceRecord) -> str:
    """A row for each step of either lane. Texts are JSON strings, so that no spreadsheet takes one for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for lane, recording in record.lanes.items():
        for number, (wrote, point) in enumerate(zip(recording.written, recording.points, strict=True), start=1):
            writer.writerow([lane, number, f"{point[0]:.6f}", *_cells(wrote.step, "".join(wrote.texts))])
    return out.getvalue()


def _cells(step: Step, text: str) -> list[object]:
    counts = [len(step.drafted), step.accepted, step.judged, step.gamma, step.why, step.kv_length]
    times = (step.draft_seconds, step.verify_seconds, step.other_seconds)
    spelled = json.dumps(text, ensure_ascii=False)
    milliseconds = ["" if seconds is None else f"{1000 * seconds:.4f}" for seconds in times]
    return [len(step.tokens), spelled, *counts, *milliseconds, step.stop or ""]


def as_markdown(record: RaceRecord, language: str) -> str:
    """The run as a page to read: verdict, figures, settings, pair, machine, both texts."""

    def told(sentence: Sentence) -> str:
        return tell(language, sentence)

    comparison = record.comparison
    baseline, speculative = (record.metrics(lane) for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    stopped = Stop.STOPPED in (baseline.stop, speculative.stop)
    verdict = scoreboard.verdict(record, comparison, over=not stopped)
    more = scoreboard.more(record, comparison, over=True, stopped=stopped)
    reasons = [] if stopped else advice.reasons(record, comparison)
    settings = _settings(record, language)
    unlike = [f"**{say(language, 'remote.mixed.mark')}**"] if record.known.here else []
    parts = [
        f"# {say(language, 'title')}",
        " ".join(told(one) for one in (verdict, *more, *reasons)),
        *unlike,
        _fenced(record.prompt),
        _table(
            ["", say(language, "baseline"), say(language, "speculative")], _figures(baseline, speculative, language)
        ),
        f"## {say(language, 'settings')}",
        _table(["", ""], settings),
        f"## {say(language, 'report.pair')}",
        _table(["", ""], record.known.pair.items()),
        f"## {say(language, 'report.environment')}",
        _table(["", ""], record.known.environment.items()),
    ]
    for lane, recording in record.lanes.items():
        parts += [f"## {say(language, lane)}", _fenced("".join(recording.texts))]
    return "\n\n".join(parts) + "\n"


def _figures(baseline: LaneMetrics, speculative: LaneMetrics, language: str) -> list[list[str]]:
    def both(name: str, write: Any, *lanes: Any) -> list[str]:
        return [say(language, name), *("–" if value is None else write(value) for value in lanes)]

    lanes = (baseline, speculative)
    return [
        both("runs.rate", figures.rate, *(lane.tokens_per_second for lane in lanes)),
        both("runs.e2e", figures.rate, *(lane.end_to_end_tokens_per_second for lane in lanes)),
        both("runs.first", lambda value: f"{1000 * value:.0f} ms", *(lane.time_to_first_token for lane in lanes)),
        both("runs.clock", lambda value: f"{value:.2f} s", *(lane.seconds for lane in lanes)),
        both("runs.tokens", str, *(lane.told_tokens for lane in lanes)),
        both("passes", str, *(lane.target_passes if lane.drafts_told else None for lane in lanes)),
        both("acceptance", lambda value: f"{figures.share(value)} %", None, speculative.draft_acceptance_rate),
        both("length", lambda value: f"{value:.2f}", None, speculative.mean_acceptance_length),
    ]


def _settings(record: RaceRecord, language: str) -> list[tuple[str, object]]:
    request, params = record.request, record.request.params
    named = {name: getattr(params, name) for name in type(params).__dataclass_fields__}
    named |= {"gamma": request.gamma, "max_new_tokens": request.max_new_tokens}
    named["draft_length"] = say(language, f"draft_length.{request.draft_length}")
    named["stop_strings"] = ", ".join(json.dumps(one, ensure_ascii=False) for one in request.stop_strings) or None
    named |= {"rule": say(language, f"rule.{request.rule}"), "mode": say(language, f"mode.{request.mode}")}
    return [(say(language, name), value) for name, value in named.items() if value is not None]


def _table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(str(cell)) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"([\\|<>`*_\[\]])", r"\\\1", " ".join(text.split()))


def _fenced(text: str) -> str:
    """A code block that nothing in the text can close."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}text\n{text}\n{fence}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


FILES: dict[str, Callable[[RaceRecord, str], str]] = {
    "json": lambda record, language: as_json(record),
    "csv": lambda record, language: as_csv(record),
    "md": as_markdown,
}
