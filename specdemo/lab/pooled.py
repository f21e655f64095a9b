"""What do several runs come to, and how sure is that? Counts that add up, the figures of their sums, and intervals.

A run's counts are plain numbers of its steps after the first, so those of any runs can be added; a figure of many runs
is the figure of their sums, as if they were one long answer. Intervals come from drawing the prompts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from specdemo.lab.experiment import Row
from specdemo.metrics import LaneMetrics

COUNTS = (
    "answers",
    "tokens",
    "passes",
    "drafting passes",
    "drafted",
    "accepted",
    "judged",
    "first accepted",
    "draft s",
    "verify s",
    "other s",
    "prefill s",
    "plain answers",
    "plain tokens",
    "plain passes",
    "plain s",
    "plain prefill s",
)
SPEEDUP, END_TO_END, E, LENGTH = "speedup", "end-to-end speedup", "E", "mean acceptance length"
ACCEPTANCE, ALPHA, FIRST, DRAFTING = "acceptance", "α", "first draft", "drafting"
COST, VERIFICATION, ROUND = "c", "v", "pass"
DRAWS, LEVEL = 2000, 0.95


def counts(lane: LaneMetrics, plain: Sequence[LaneMetrics], padding: float = 1.0) -> Row:
    """A speculative lane and the plain lanes beside it. padding: of a plain step over the fastest one (see Pair)."""
    return {
        "answers": 1,
        "tokens": lane.decoded,
        "passes": lane.target_passes,
        "drafting passes": lane.steps_that_drafted,
        "drafted": lane.drafted,
        "accepted": lane.accepted,
        "judged": lane.judged,
        "first accepted": sum(lane.accepted_per_position[:1]),
        "draft s": lane.draft_seconds,
        "verify s": lane.verify_seconds,
        "other s": lane.other_seconds,
        "prefill s": lane.prefill_seconds,
        "plain answers": len(plain),
        "plain tokens": sum(one.decoded for one in plain),
        "plain passes": sum(one.target_passes for one in plain),
        "plain s": sum(one.decode_seconds for one in plain) / padding,
        "plain prefill s": sum(one.prefill_seconds for one in plain),
    }


def figures(sums: Mapping[str, Any]) -> dict[str, Any]:
    """Of added counts, numbers or arrays alike; nan where what a figure is over never happened.

    c, v, pass: a drafted token, a verification, a whole pass, in plain steps of the lane beside it. E: tokens a pass.
    first draft: of the passes that drafted, the share whose first token was accepted. drafting: their share of all.
    """
    n = {name: np.asarray(sums[name], dtype=float) for name in COUNTS}
    seconds = n["draft s"] + n["verify s"] + n["other s"]
    step = _over(n["plain s"], n["plain passes"])
    whole = _over(n["tokens"] + n["answers"], seconds + n["prefill s"])
    plain_whole = _over(n["plain tokens"] + n["plain answers"], n["plain s"] + n["plain prefill s"])
    return {
        SPEEDUP: _over(_over(n["tokens"], seconds), _over(n["plain tokens"], n["plain s"])),
        END_TO_END: _over(whole, plain_whole),
        E: _over(n["tokens"], n["passes"]),
        LENGTH: 1 + _over(n["accepted"], n["drafting passes"]),
        ACCEPTANCE: _over(n["accepted"], n["drafted"]),
        ALPHA: _over(n["accepted"], n["judged"]),
        FIRST: _over(n["first accepted"], n["drafting passes"]),
        DRAFTING: _over(n["drafting passes"], n["passes"]),
        COST: _over(n["draft s"], n["drafted"] * step),
        VERIFICATION: _over(n["verify s"], n["passes"] * step),
        ROUND: _over(seconds, n["passes"] * step),
    }


def pooled(rows: Sequence[Row]) -> dict[str, float | None]:
    """The figures of all these rows together; None where there is none."""
    sums = {name: sum(row[name] for row in rows) for name in COUNTS}
    return {name: None if np.isnan(value) else float(value) for name, value in figures(sums).items()}


def speedup_of(rows: Sequence[Row]) -> float:
    """The speedup that `pooled` gives, 0 for None, of its own sums alone: for who asks for very many."""
    tokens, seconds, plain_tokens, plain_seconds = (
        sum(sum(row[name] for name in names) for row in rows)
        for names in (("tokens",), ("draft s", "verify s", "other s"), ("plain tokens",), ("plain s",))
    )
    return tokens * plain_seconds / (seconds * plain_tokens) if seconds and plain_tokens else 0.0


def interval(
    samples: Sequence[Sequence[Row]], of: Callable[..., Any], draws: int = DRAWS
) -> tuple[float, float] | None:
    """Where 95 % of `of` lie when prompts are drawn anew, with replacement; None below two prompts.

    samples: one or more sequences of rows, which `of` takes the summed counts of (arrays over the draws). A prompt is
    drawn in all of them together, so that what is compared is compared on the same prompts.
    """
    prompts = sorted({prompt_of(row) for rows in samples for row in rows})
    if len(prompts) < 2:
        return None
    dice = np.random.default_rng(0)
    weights = dice.multinomial(len(prompts), np.full(len(prompts), 1 / len(prompts)), size=draws)  # [draws, prompts]
    values = of(*(_drawn(rows, prompts, weights) for rows in samples))
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def interval_of(rows: Sequence[Row], figure: str) -> tuple[float, float] | None:
    """The interval of one figure over its prompts."""
    return interval([rows], lambda sums: figures(sums)[figure])


def prompt_of(row: Row) -> tuple[str, str]:
    """What is drawn anew: a prompt, with all of its repeats."""
    return str(row["kind"]), str(row["prompt"])


def settings_of(rows: Sequence[Row], names: Sequence[str]) -> list[tuple]:
    """Every combination of the named settings that the rows have, in their order."""
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def having(rows: Sequence[Row], **settings: object) -> list[Row]:
    """The rows with these settings."""
    return [row for row in rows if all(row[name] == value for name, value in settings.items())]


def shown(value: float | None, between: tuple[float, float] | None = None, decimals: int = 2) -> str:
    """A figure and its interval as a table has them."""
    if value is None:
        return "–"
    about = f" ({between[0]:.{decimals}f} to {between[1]:.{decimals}f})" if between else ""
    return f"{value:.{decimals}f}{about}"


def _drawn(rows: Sequence[Row], prompts: Sequence[tuple[str, str]], weights: np.ndarray) -> dict[str, np.ndarray]:
    """Summed counts [draws] of the rows, each as often as its prompt was drawn."""
    at = {prompt: i for i, prompt in enumerate(prompts)}
    table = np.zeros((len(prompts), len(COUNTS)))
    for row in rows:
        table[at[prompt_of(row)]] += [row[name] for name in COUNTS]
    return dict(zip(COUNTS, (weights @ table).T, strict=True))


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b != 0)
