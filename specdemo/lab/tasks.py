"""What is speculation worth on each kind of prompt, for each draft length? With the range the prompts leave open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import DraftLength, Rule
from specdemo.lab.chart import Chart, Mark, mark
from specdemo.lab.experiment import Experiment, Row, Told
from specdemo.lab.options import COUNT, GAMMA, TEMPERATURE, TOKENS, OneOf, Several, option
from specdemo.lab.pooled import (
    ACCEPTANCE,
    COST,
    END_TO_END,
    LENGTH,
    SPEEDUP,
    VERIFICATION,
    E,
    having,
    interval_of,
    pooled,
    prompt_of,
    settings_of,
    shown,
)
from specdemo.lab.prompts import PromptOptions
from specdemo.lab.runs import faults, measured
from specdemo.race import Request

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

ALL = "all"
SETTING = ("γ", "policy")
WITH_INTERVALS = (SPEEDUP, END_TO_END, E, ACCEPTANCE, COST, VERIFICATION)


@dataclass(frozen=True, slots=True)
class TaskOptions(PromptOptions):
    """Fixed draft lengths, and policies that move theirs, with the longest of them at most, under one sampling."""

    gammas: tuple[int, ...] = option(
        (4, 6), "draft lengths, as in 4,6; the longest is what a policy may draft at most", Several(GAMMA)
    )
    policies: tuple[DraftLength, ...] = option(
        (DraftLength.FIXED,), "how a draft's length is chosen, as in fixed,cost-optimal", Several(OneOf(DraftLength))
    )
    temperature: float = option(0.0, "0 is greedy", TEMPERATURE)
    rule: Rule = option(Rule.SHARED_NOISE, "how a draft is judged", OneOf(Rule))
    max_new_tokens: int = option(128, "tokens that each answer may have", TOKENS)
    repeats: int = option(1, "of every prompt, each with a seed of its own", COUNT)

    def settings(self) -> list[Row]:
        """What each prompt runs with."""
        longest = max(self.gammas)
        return [
            {"γ": gamma, "policy": policy.value}
            for policy in self.policies
            for gamma in (self.gammas if policy is DraftLength.FIXED else (longest,))
        ]


def cells(options: TaskOptions) -> list[Row]:
    """Every prompt with every setting, those that share a plain lane together."""
    return [
        {"kind": prompt.kind, "prompt": prompt.name, "repeat": repeat} | setting
        for repeat, prompt in product(range(1, options.repeats + 1), options.read())
        for setting in options.settings()
    ]


def run(pair: Pair, options: TaskOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """All settings on a prompt beside one plain lane, then the next prompt."""
    asked = options.asked(pair)

    def contestant(cell: Row) -> tuple[Pair, Request]:
        prompt = asked[prompt_of(cell)]
        seed = prompt.seed + (cell["repeat"] - 1) * len(asked)
        return pair, Request(
            prompt.ids,
            SamplingParams(options.temperature, seed=seed),
            options.rule,
            cell["γ"],
            options.max_new_tokens,
            draft_length=DraftLength(cell["policy"]),
        )

    yield from measured(todo, contestant, beside=lambda cell: (prompt_of(cell), cell["repeat"]))


def table(rows: Sequence[Row]) -> list[Told]:
    """A line for each kind and setting, then all kinds together."""
    lines = []
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    for kind, setting in product([*kinds, *([ALL] if len(kinds) > 1 else [])], settings_of(rows, SETTING)):
        mine = _with(rows if kind == ALL else having(rows, kind=kind), setting)
        if mine:
            lines.append({"kind": kind, **_named(setting), **_figures(mine)})
    return lines


def _named(setting: tuple) -> Told:
    gamma, policy = setting
    return {"γ": str(gamma), "policy": policy}


def _figures(rows: Sequence[Row]) -> Told:
    found = pooled(rows)
    told = {name: shown(found[name], interval_of(rows, name)) for name in WITH_INTERVALS}
    told[LENGTH] = shown(found[LENGTH])
    return told | {"prompts": str(len({prompt_of(row) for row in rows}))}


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The speedup of every setting on each kind, with its range."""
    if not rows:
        return []
    kinds, settings = list(dict.fromkeys(row["kind"] for row in rows)), settings_of(rows, SETTING)

    def speedup(kind: str, setting: tuple) -> Mark | None:
        mine = _with(having(rows, kind=kind), setting)
        return mark(pooled(mine)[SPEEDUP], interval_of(mine, SPEEDUP)) if mine else None

    marks = tuple(tuple(speedup(kind, setting) for kind in kinds) for setting in settings)
    named = tuple(_setting(setting).removesuffix(",") for setting in settings)
    return [Chart("Speedup by kind", "kind", tuple(kinds), named, marks, even=1.0)]


def findings(rows: Sequence[Row]) -> list[str]:
    """Where it pays for certain, where it costs, where so few prompts cannot tell; the best setting; faults."""
    if not rows:
        return []
    said = []
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    for kind in kinds:
        of_kind = having(rows, kind=kind)
        best = _best(of_kind, settings_of(of_kind, SETTING))
        mine = _with(of_kind, best)
        between, speedup = interval_of(mine, SPEEDUP), pooled(mine)[SPEEDUP]
        if speedup is not None:
            said.append(f"{kind}: {_setting(best)} does best, {speedup:.2f}×; {_verdict(between)}.")
    said += _best_of_all(rows, kinds)
    return said + _over_fixed(rows, kinds) + faults(rows)


def _best_of_all(rows: Sequence[Row], kinds: Sequence[str]) -> list[str]:
    settings = settings_of(rows, SETTING)
    if len(kinds) < 2 or len(settings) < 2:
        return []
    best = _best(rows, settings)
    return [f"One setting for all kinds: {_setting(best)}, {_speedup(rows, best) or 0.0:.2f}× over all prompts."]


def _over_fixed(rows: Sequence[Row], kinds: Sequence[str]) -> list[str]:
    """What each policy gains over the best fixed γ of each kind, and over the best single one where kinds are mixed."""
    settings = settings_of(rows, SETTING)
    fixed = [setting for setting in settings if setting[1] == DraftLength.FIXED]
    if len(fixed) < 2 or len(kinds) < 2:
        return []

    by_kind = {kind: having(rows, kind=kind) for kind in kinds}
    of_best = {kind: _with(some, _best(some, fixed)) for kind, some in by_kind.items()}
    single = _speedup(rows, _best(rows, fixed))
    known = pooled([row for some in of_best.values() for row in some])[SPEEDUP]
    said = []
    for setting in (one for one in settings if one not in fixed):
        gains = {kind: _gain(_speedup(some, setting), pooled(of_best[kind])[SPEEDUP]) for kind, some in by_kind.items()}
        worst, best = min(gains, key=gains.get), max(gains, key=gains.get)
        said.append(
            f"{_setting(setting)} over the best fixed γ of each kind: {gains[worst]:+.1%} ({worst}) to "
            f"{gains[best]:+.1%} ({best}); over the best single one, on all prompts, "
            f"{_gain(_speedup(rows, setting), single):+.1%}, where one who knew the best γ of each kind would gain "
            f"{_gain(known, single):+.1%}."
        )
    return said


def _gain(speedup: float | None, over: float | None) -> float:
    return speedup / over - 1 if speedup and over else 0.0


def _with(rows: Sequence[Row], setting: tuple) -> list[Row]:
    return having(rows, **dict(zip(SETTING, setting, strict=True)))


def _best(rows: Sequence[Row], settings: Sequence[tuple]) -> tuple:
    return max(settings, key=lambda setting: _speedup(rows, setting) or 0.0)


def _speedup(rows: Sequence[Row], setting: tuple) -> float | None:
    return pooled(_with(rows, setting))[SPEEDUP]


def _setting(setting: tuple) -> str:
    gamma, policy = setting
    return f"γ {gamma}" + ("" if policy == DraftLength.FIXED else f" ({policy})")


def _verdict(between: tuple[float, float] | None) -> str:
    if between is None:
        return "one prompt alone says nothing of others"
    low, high = between
    about = f"95 % of draws of the prompts lie between {low:.2f}× and {high:.2f}×"
    if low > 1:
        return f"{about}: it pays"
    return f"{about}: it does not pay" if high < 1 else f"{about}: whether it pays cannot be told from these prompts"


TASKS = Experiment(
    "tasks",
    "What is speculation worth on each kind of prompt, for each draft length?",
    TaskOptions,
    cells,
    run,
    table,
    findings,
    charts=charts,
)
