"""How is it shown? A markdown table with the environment under it, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from specdemo.bench.contest import Settings
from specdemo.bench.results import Goal, Result
from specdemo.tables import markdown
from specdemo.trace_files import write_whole

FORMAT, VERSION = "specdemo bench", 1
ENOUGH = 5  # repeats; a median of fewer is a look, not a measurement


def table(results: Sequence[Result], settings: Settings, facts: dict[str, str], environment: dict[str, str]) -> str:
    """Everything a person should see, as markdown."""
    head = ("", "what", "median", "min to max", "goal", "")
    shown = markdown(head, [_line(result) for result in results])
    remarks = [remark for result in results for remark in _remarks(result)]
    about = [
        f"Greedy unless it says otherwise, γ {settings.gamma}, {settings.new_tokens} new tokens, medians of "
        f"{settings.repeats} interleaved repeats after a warm-up"
        + ("." if settings.repeats >= ENOUGH else f": fewer than {ENOUGH}, a look and not a measurement."),
        "; ".join(f"{name} {value}" for name, value in (facts | environment).items()) + ".",
    ]
    return "\n".join([shown, "", *remarks, "", *about])


def to_json(
    results: Sequence[Result], settings: Settings, facts: dict[str, str], environment: dict[str, str]
) -> dict[str, object]:
    """The same, to be kept: every repeat's value, not only the median."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "environment": environment,
        "pair": facts,
        "settings": {**asdict(settings), "prompts": settings.prompts.name},
        "noisy": any(result.noisy for result in results),
        "results": [
            asdict(r)
            | {"value": r.value, "reached": r.reached, "noisy": r.noisy, "low": min(r.values)}
            | {"high": max(r.values)}
            for r in results
        ],
    }


def save(path: Path, content: dict[str, object]) -> None:
    """Write the JSON, whole or not at all; raises OSError."""
    write_whole(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def _line(result: Result) -> tuple[str, ...]:
    verdict = "void" if result.faults else "" if not result.goal else "reached" if result.reached else "MISSED"
    spread = f"{_shown(min(result.values), result.unit)} to {_shown(max(result.values), result.unit)}"
    noisy = ", noisy" if result.noisy else ""
    return result.row, result.what, _shown(result.value, result.unit), spread, _goal(result), verdict + noisy


def _remarks(result: Result) -> list[str]:
    """Under the table: figures of each side, then whatever a reader should know of this line."""
    lines = [f"{result.row} {result.what}:"]
    for side, figures in result.figures.items():
        lines.append(f"  - {side}: " + ", ".join(f"{_figure(key, value)}" for key, value in figures.items()))
    lines += [f"  - {note}" for note in result.notes]
    lines += [f"  - VOID: {fault}" for fault in result.faults]
    lines += [f"  - noisy: {name} was busy meanwhile" for name in result.busy]
    return lines


def _figure(key: str, value: float) -> str:
    if key == "acceptance":
        return f"{key} {value:.0%}"
    return f"{value:.2f} {key}"


def _goal(result: Result) -> str:
    goal: Goal = result.goal
    low, high = (None if bound is None else _shown(bound, result.unit) for bound in (goal.at_least, goal.at_most))
    if not goal:
        return ""
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}"


def _shown(value: float, unit: str) -> str:
    return f"{100 * value:.1f} %" if unit == "%" else f"{value:.2f}×"
