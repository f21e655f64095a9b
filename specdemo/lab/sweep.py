"""Does another temperature help? Acceptance and speedup over temperature and draft length, as heat maps.

α (accepted / judged) says whether the draft fits; a temperature repairs a draft only where α rises for certain and
what did not pay then pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Rule
from specdemo.lab.experiment import Experiment, Row, Told
from specdemo.lab.heat_map import HeatMap
from specdemo.lab.options import COUNT, GAMMA, TEMPERATURE, TOKENS, Number, OneOf, OrSame, Several, option
from specdemo.lab.pooled import (
    ACCEPTANCE,
    ALPHA,
    SPEEDUP,
    E,
    figures,
    having,
    interval,
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

LINE = ("temperature", "draft temperature")
MAP = ("rule", "top-p")  # each combination has heat maps of its own


@dataclass(frozen=True, slots=True)
class SweepOptions(PromptOptions):
    """Every combination is measured on every prompt."""

    per_kind: int | None = option(1, "prompts of each kind", COUNT)
    gammas: tuple[int, ...] = option((1, 2, 4, 6, 8), "draft lengths", Several(GAMMA))
    temperatures: tuple[float, ...] = option((0.0, 0.4, 0.7, 1.0), "of both models; 0 is greedy", Several(TEMPERATURE))
    draft_temperatures: tuple[float | None, ...] = option(
        (None,), "the drafter's own, as in same,0.5,1: same is the target's", Several(OrSame(TEMPERATURE))
    )
    top_ps: tuple[float, ...] = option((1.0,), "nuclei; 1 is off", Several(Number(float, 1e-6, 1)))
    rules: tuple[Rule, ...] = option((Rule.REJECTION,), "how a draft is judged", Several(OneOf(Rule)))
    max_new_tokens: int = option(64, "tokens that each answer may have", TOKENS)


def cells(options: SweepOptions) -> list[Row]:
    """Every prompt with every combination, those that share a plain lane together."""
    return [
        {
            "kind": prompt.kind,
            "prompt": prompt.name,
            "temperature": temperature,
            "top-p": top_p,
            "draft temperature": draft_temperature,
            "rule": rule.value,
            "γ": gamma,
        }
        for prompt, temperature, top_p in product(options.read(), options.temperatures, options.top_ps)
        for draft_temperature, rule, gamma in product(options.draft_temperatures, options.rules, options.gammas)
    ]


def run(pair: Pair, options: SweepOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """All that share the target's own sampling, on a prompt, beside one plain lane."""
    asked = options.asked(pair)

    def contestant(cell: Row) -> tuple[Pair, Request]:
        prompt = asked[prompt_of(cell)]
        params = SamplingParams(
            cell["temperature"],
            top_p=cell["top-p"],
            seed=prompt.seed,
            draft_temperature=cell["draft temperature"],
        )
        return pair, Request(prompt.ids, params, Rule(cell["rule"]), cell["γ"], options.max_new_tokens)

    yield from measured(todo, contestant, lambda cell: (prompt_of(cell), cell["temperature"], cell["top-p"]))


def table(rows: Sequence[Row]) -> list[Told]:
    """A line for each combination, over all prompts."""
    names = (*MAP, *LINE, "γ")
    lines = []
    for setting in settings_of(rows, names):
        settings = dict(zip(names, setting, strict=True))
        mine = having(rows, **settings)
        found = pooled(mine)
        told = {name: "same" if value is None else str(value) for name, value in settings.items()}
        told |= {name: shown(found[name], interval_of(mine, name)) for name in (ACCEPTANCE, ALPHA, SPEEDUP)}
        lines.append(told | {E: shown(found[E])})
    return lines


def maps(rows: Sequence[Row]) -> list[HeatMap]:
    """Acceptance and speedup: temperatures down, draft lengths across."""
    found = []
    for setting in settings_of(rows, MAP):
        of_map = having(rows, **dict(zip(MAP, setting, strict=True)))
        lines, gammas = settings_of(of_map, LINE), sorted({row["γ"] for row in of_map})
        for figure, title in ((ACCEPTANCE, "Acceptance"), (SPEEDUP, "Speedup")):
            values = tuple(tuple(_figure(of_map, line, gamma, figure) for gamma in gammas) for line in lines)
            names, columns = tuple(map(_line, lines)), tuple(map(str, gammas))
            found.append(HeatMap(f"{title}{_among(rows, setting)}", "temperature", "γ", names, columns, values))
    return found


def _figure(rows: Sequence[Row], line: tuple, gamma: int, figure: str) -> float | None:
    mine = having(rows, γ=gamma, **dict(zip(LINE, line, strict=True)))
    return pooled(mine)[figure] if mine else None


def _line(line: tuple) -> str:
    temperature, draft = line
    return f"{temperature:g}" + ("" if draft is None else f", draft {draft:g}")


def _among(rows: Sequence[Row], setting: tuple) -> str:
    """Which of the heat maps it is, where there are several."""
    return f" ({setting[0]}, top-p {setting[1]:g})" if len(settings_of(rows, MAP)) > 1 else ""


def findings(rows: Sequence[Row]) -> list[str]:
    """The best cell, and whether a temperature repaired the draft."""
    said = []
    for setting in settings_of(rows, MAP):
        of_map = having(rows, **dict(zip(MAP, setting, strict=True)))
        said += [sentence + _among(rows, setting) + "." for sentence in (*_best(of_map), *_repaired(of_map))]
    return said + faults(rows)


def _best(rows: Sequence[Row]) -> list[str]:
    names = (*LINE, "γ")
    sped = {
        one: pooled(having(rows, **dict(zip(names, one, strict=True))))[SPEEDUP] for one in settings_of(rows, names)
    }
    sped = {one: speedup for one, speedup in sped.items() if speedup is not None}
    if not sped:
        return []
    best = max(sped, key=sped.get)
    return [f"The best cell is temperature {_line(best[:2])} with γ {best[2]}: {sped[best]:.2f}×"]


def _repaired(rows: Sequence[Row]) -> list[str]:
    """The line with the highest α against the first of the coldest ones."""
    lines = {line: having(rows, **dict(zip(LINE, line, strict=True))) for line in settings_of(rows, LINE)}
    alphas = {line: pooled(mine)[ALPHA] for line, mine in lines.items()}
    alphas = {line: alpha for line, alpha in alphas.items() if alpha is not None}
    if len(alphas) < 2:
        return []
    cold = min(alphas, key=lambda line: line[0])
    best = max(alphas, key=alphas.get)
    if best == cold:
        rest = ", ".join(f"{alpha:.2f} at {_line(line)}" for line, alpha in alphas.items() if line != cold)
        return [f"Temperature did not repair the draft: α is {alphas[cold]:.2f} at {_line(cold)} and {rest}"]
    gain = interval([lines[best], lines[cold]], lambda warm, plain: figures(warm)[ALPHA] - figures(plain)[ALPHA])
    moved = f"α is {alphas[best]:.2f} at temperature {_line(best)} against {alphas[cold]:.2f} at {_line(cold)}"
    if gain is None or gain[0] <= 0:
        between = "one prompt cannot tell" if gain is None else f"{gain[0]:+.2f} to {gain[1]:+.2f} over these prompts"
        return [f"Temperature did not repair the draft for certain: {moved} ({between})"]
    before, after = (_fastest(lines[line]) for line in (cold, best))
    speeds = f"{moved} (by {gain[0]:.2f} to {gain[1]:.2f}), and the best speedup {after:.2f}× against {before:.2f}×"
    if after <= 1:
        return [f"Temperature raised acceptance and did not repair the draft: {speeds}"]
    if before > 1:
        return [f"Temperature raised acceptance of a draft that paid anyway: {speeds}"]
    return [f"Temperature repaired the draft: {speeds}"]


def _fastest(rows: Sequence[Row]) -> float:
    return max(pooled(having(rows, γ=gamma))[SPEEDUP] or 0.0 for (gamma,) in settings_of(rows, ("γ",)))


SWEEP = Experiment(
    "sweep",
    "Does another temperature, nucleus or rule help, and with which draft length?",
    SweepOptions,
    cells,
    run,
    table,
    findings,
    maps,
)
