"""Does the speedup grow with the answer's length? Read off one pair of traces a prompt, at checkpoints.

A row counts what lies between two checkpoints, so rows add up to what was written until the last of them. Speedup is
E over what a pass costs in plain steps, exactly; so what moved it is one, or the other, or both.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import log
from typing import TYPE_CHECKING, Any

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import DraftLength, Rule, Step
from specdemo.lab.chart import Chart, mark
from specdemo.lab.experiment import Experiment, Row, Told
from specdemo.lab.options import GAMMA, TEMPERATURE, TOKENS, OneOf, Several, option
from specdemo.lab.pooled import (
    ACCEPTANCE,
    COUNTS,
    DRAFTING,
    ROUND,
    SPEEDUP,
    VERIFICATION,
    E,
    counts,
    figures,
    interval,
    interval_of,
    pooled,
    prompt_of,
    shown,
)
from specdemo.lab.prompts import PromptOptions
from specdemo.lab.runs import faults, texts, warm_up
from specdemo.metrics import LaneMetrics
from specdemo.race import Lane, Request, check, race

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

TURN = 100  # tokens after which, it is said, speculation begins to pay


@dataclass(frozen=True, slots=True)
class LengthOptions(PromptOptions):
    """One race a prompt, to the last checkpoint or to the end of its answer."""

    checkpoints: tuple[int, ...] = option((16, 32, 64, TURN, 128, 256), "tokens of the answer", Several(TOKENS))
    gamma: int = option(4, "draft length", GAMMA)
    policy: DraftLength = option(DraftLength.FIXED, "how a draft's length is chosen", OneOf(DraftLength))
    temperature: float = option(0.0, "0 is greedy", TEMPERATURE)
    rule: Rule = option(Rule.SHARED_NOISE, "how a draft is judged", OneOf(Rule))


def cells(options: LengthOptions) -> list[Row]:
    """What lies between two checkpoints, of every prompt's answer."""
    marks = (1, *sorted(options.checkpoints))  # the first token is the prompt's
    return [
        {"kind": prompt.kind, "prompt": prompt.name, "from": low, "to": high, "γ": options.gamma}
        for prompt in options.read()
        for low, high in pairwise(marks)
    ]


def run(pair: Pair, options: LengthOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """A race on each prompt of which a row is missing."""
    asked = options.asked(pair)

    def request(cell: Row) -> Request:
        prompt = asked[prompt_of(cell)]
        params = SamplingParams(options.temperature, seed=prompt.seed)
        longest = max(options.checkpoints)
        return Request(prompt.ids, params, options.rule, options.gamma, longest, draft_length=options.policy)

    for cell in todo:
        check(pair, request(cell))
    for n, (_, group) in enumerate(groupby(todo, prompt_of)):
        mine = list(group)
        one = request(mine[0])
        if n == 0:
            yield from warm_up([(pair, one)])
        steps = yield from _raced(pair, one)
        lanes = [LaneMetrics.of(steps[lane]) for lane in Lane]
        same = texts(pair, one, *lanes)
        for cell in mine:
            yield cell | _between(steps, cell["from"], cell["to"], pair.padding) | same


def _raced(pair: Pair, request: Request) -> Generator[None, None, dict[Lane, list[Step]]]:
    """Both lanes at the same lane time throughout, so that whatever drifts meets both alike."""
    steps: dict[Lane, list[Step]] = {lane: [] for lane in Lane}
    with closing(race(pair, request)) as running:
        for one in running:
            steps[one.lane].append(one.step)
            yield
    return steps


def _between(steps: Mapping[Lane, Sequence[Step]], low: int, high: int, padding: float) -> Row:
    """What was counted from the step that reached the token `low` to the one that reached `high`; nothing where the
    answer ended before."""
    prefixes = [{lane: _until(steps[lane], tokens) for lane in Lane} for tokens in (low, high)]
    if any(prefix is None for one in prefixes for prefix in one.values()):
        return {"reached": False} | dict.fromkeys(COUNTS, 0)
    before, after = (
        counts(LaneMetrics.of(one[Lane.SPECULATIVE]), [LaneMetrics.of(one[Lane.BASELINE])], padding) for one in prefixes
    )
    whole = low == 1  # the first stretch of an answer has the prompt's own pass before it
    kept = ("answers", "prefill s", "plain answers", "plain prefill s") if whole else ()
    return {"reached": True} | {name: after[name] - (0 if name in kept else before[name]) for name in COUNTS}


def _until(steps: Sequence[Step], tokens: int) -> Sequence[Step] | None:
    """The steps that reach so many tokens; None where all of them do not."""
    written = 0
    for n, step in enumerate(steps, 1):
        written += len(step.tokens)
        if written >= tokens:
            return steps[:n]
    return None


def table(rows: Sequence[Row]) -> list[Told]:
    """A line for each checkpoint, over the prompts whose answers reached it; all behind the first speedup is of what
    was written since the checkpoint before."""
    lines = []
    for high in sorted({row["to"] for row in rows}):
        here, until = _reached(rows, high)
        told = {"tokens": str(high), "prompts": str(len(here))}
        if here:
            since = pooled(here)
            told["speedup until then"] = shown(pooled(until)[SPEEDUP], interval_of(until, SPEEDUP))
            told["speedup since"] = shown(since[SPEEDUP])
            told |= {name: shown(since[name]) for name in (E, DRAFTING, ACCEPTANCE, VERIFICATION, ROUND)}
        lines.append(told)
    return lines


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The speedup until each checkpoint with its range, and since the one before."""
    until, since, ends = [], [], []
    for high in sorted({row["to"] for row in rows}):
        here, before = _reached(rows, high)
        if here:
            ends.append(str(high))
            until.append(mark(pooled(before)[SPEEDUP], interval_of(before, SPEEDUP)))
            since.append(mark(pooled(here)[SPEEDUP]))
    series, marks = ("until then", "since the checkpoint before"), (tuple(until), tuple(since))
    return [Chart("Speedup by length", "tokens", tuple(ends), series, marks, joined=True, even=1.0)] if ends else []


def _reached(rows: Sequence[Row], high: int) -> tuple[list[Row], list[Row]]:
    """The rows that end at a checkpoint which their answers reached; and of the same prompts, all until there."""
    here = [row for row in rows if row["to"] == high and row["reached"]]
    prompts = {prompt_of(row) for row in here}
    return here, [row for row in rows if row["to"] <= high and prompt_of(row) in prompts]


def findings(rows: Sequence[Row]) -> list[str]:
    """Whether it grows past 100 tokens, and what moved."""
    late = [row for row in rows if row["from"] >= TURN and row["reached"]]
    went_on = {prompt_of(row) for row in late}
    early = [row for row in rows if row["to"] <= TURN and row["reached"] and prompt_of(row) in went_on]
    if not rows:
        return []
    if not late or not early:
        return [
            f"Nothing can be said of more than {TURN} tokens: no answer reached a checkpoint after one at {TURN}.",
            *faults(rows),
        ]
    before, after = pooled(early), pooled(late)
    if not before[SPEEDUP] or not after[SPEEDUP]:
        return faults(rows)
    growth = interval([late, early], _ratio)
    speeds = f"{after[SPEEDUP]:.2f}× against {before[SPEEDUP]:.2f}× before, on the {_prompts(len(went_on))} that go on"
    if growth is None:
        return [
            f"Past {TURN} tokens: {speeds}; one prompt says nothing of others. {_why(before, after)}",
            *faults(rows),
        ]
    if growth[0] > 1:
        verdict = "it grows"
    elif growth[1] < 1:
        verdict = "it shrinks"
    else:
        verdict = "it neither grows nor shrinks for certain"
    about = f"over these prompts by a factor of {growth[0]:.2f} to {growth[1]:.2f}"
    return [f"Past {TURN} tokens {verdict}: {speeds} ({about}).", _why(before, after), *faults(rows)]


def _ratio(late: Mapping[str, Any], early: Mapping[str, Any]) -> Any:
    return figures(late)[SPEEDUP] / figures(early)[SPEEDUP]


def _why(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Which of the two factors moved it more; both with what lies behind them."""
    tokens, cost = after[E] / before[E], before[ROUND] / after[ROUND]

    def moved(name: str) -> str:
        return f"{shown(before[name])} to {shown(after[name])}"

    behind = f"acceptance {moved(ACCEPTANCE)}, the share of passes that drafted {moved(DRAFTING)}"
    of_tokens = f"tokens a pass went from {moved(E)} ({behind}), which alone is {tokens:.2f} times"
    of_cost = f"a pass went from {moved(ROUND)} plain steps (v {moved(VERIFICATION)}), which alone is {cost:.2f} times"
    first, second = (of_tokens, of_cost) if abs(log(tokens)) >= abs(log(cost)) else (of_cost, of_tokens)
    return f"What moved the speedup most comes first: {first}; {second}."


def _prompts(n: int) -> str:
    return "prompt" if n == 1 else f"{n} prompts"


LENGTH = Experiment(
    "length",
    f"Does the speedup grow with the length of the answer, past {TURN} tokens, and why?",
    LengthOptions,
    cells,
    run,
    table,
    findings,
    charts=charts,
)
