"""Why not 3×? Where a pair's time goes and its tokens are lost, what each costs, and what to do about it.

Each prompt runs beside a plain lane, timed, and once more under watch (see witness.py); the device's own ceilings say
whether a step has anything to give (see roofline.py). Findings stand in the order of what they cost.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Rule
from specdemo.lab.chart import Chart, mark
from specdemo.lab.experiment import Experiment, Row, Told
from specdemo.lab.options import TEMPERATURE, TOKENS, Number, OneOf, option
from specdemo.lab.pooled import ALPHA, SPEEDUP, E, counts, pooled, prompt_of, shown
from specdemo.lab.prompt_files import TaskPrompt
from specdemo.lab.prompts import PromptOptions
from specdemo.lab.roofline import Bound, Footprint, Roof, footprint, roof, rows_dtype
from specdemo.lab.runs import faults, followed, texts, warm_up
from specdemo.metrics import LaneMetrics
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.prompt_kind import kind_of
from specdemo.race import Lane, Request, check, lanes
from specdemo.theory import CostModel

if TYPE_CHECKING:
    from specdemo.lab.witness import Evidence
    from specdemo.models.pair import Pair

DEVICE = "device"  # the kind of the cell that holds the ceilings
SURE = 5.0  # standard errors: a right rule is that far off once in a million tests
ENOUGH = 9.0  # variance of a sum from which it is near enough to normal for that
LITTLE = 0.03  # of the speedup: what would gain less is not worth a sentence
POSITION = ("reached", "judged", "accepted", "expected", "variance", "told", "tv", "finite", "kl")


@dataclass(frozen=True, slots=True)
class DiagnoseOptions(PromptOptions):
    """One setting, on every prompt, or on the one that is asked."""

    ask: str = option("", "one prompt to look at, in place of prompts by kind")
    per_kind: int | None = option(1, "prompts of each kind", Number(int, 1, 10_000))
    gamma: int = option(5, "draft length", Number(int, 1, MAX_GAMMA))
    temperature: float = option(0.0, "0 is greedy", TEMPERATURE)
    rule: Rule = option(Rule.REJECTION, "how a draft is judged", OneOf(Rule))
    max_new_tokens: int = option(96, "tokens that each answer may have", TOKENS)

    def read(self) -> list[TaskPrompt]:
        """The prompts that are asked for; raises LabRefused."""
        if self.ask.strip():
            return [TaskPrompt(kind_of(self.ask), "1", self.ask)]
        return PromptOptions.read(self)  # a dataclass with slots is a class made anew, which super() does not know


def cells(options: DiagnoseOptions) -> list[Row]:
    """The device, then every prompt."""
    prompts = [{"kind": prompt.kind, "prompt": prompt.name} for prompt in options.read()]
    return [{"kind": DEVICE, "prompt": ""}, *prompts]


def run(pair: Pair, options: DiagnoseOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """The ceilings, then prompt by prompt."""
    asked = options.asked(pair)
    requests = {
        key: Request(
            prompt.ids,
            SamplingParams(options.temperature, seed=prompt.seed),
            options.rule,
            options.gamma,
            options.max_new_tokens,
        )
        for key, prompt in asked.items()
    }
    prompts = [cell for cell in todo if cell["kind"] != DEVICE]
    for cell in prompts:
        check(pair, requests[prompt_of(cell)])
    for cell in todo:
        if cell["kind"] == DEVICE:
            yield cell | _ceilings(pair)
    if prompts:
        yield from warm_up([(pair, requests[prompt_of(prompts[0])])])
    for cell in prompts:
        yield cell | (yield from _examined(pair, requests[prompt_of(cell)]))


def _ceilings(pair: Pair) -> Row:
    from specdemo.models.ceilings import measure_ceilings

    found = measure_ceilings(pair.target.device, rows_dtype(pair))
    step = footprint(pair)
    return {
        "bytes/s": found.bytes_per_second,
        "flops/s": found.flops_per_second,
        "weight bytes": step.weights,
        "bytes per token held": step.per_token,
        "flops per token": step.flops,
    }


def _examined(pair: Pair, request: Request) -> Generator[None, None, Row]:
    """Timed: the plain lane, the speculative one, the plain one again. Then under watch. Then the text itself."""
    from specdemo.lab.witness import witnessed

    plain = [(yield from followed(lanes(pair, request)[Lane.BASELINE]))]
    drafted = yield from followed(lanes(pair, request)[Lane.SPECULATIVE])
    plain.append((yield from followed(lanes(pair, request)[Lane.BASELINE])))
    evidence = yield from witnessed(pair, request)
    baselines, lane = [LaneMetrics.of(one) for one in plain], LaneMetrics.of(drafted)
    row = counts(lane, baselines, pair.padding) | texts(pair, request, baselines[0], lane)
    row["γ"] = request.gamma
    row["rule"], row["temperature"] = request.rule.value, request.params.temperature
    row["tokens held"] = sum(step.kv_length for one in plain for step in one[1:])
    row["drafted² of passes"] = sum(n * drafted**2 for drafted, (n, _) in lane.verifications.items())
    row["drafted × verify s"] = sum(seconds * drafted for drafted, (_, seconds) in lane.verifications.items())
    return row | _copied(request.prompt_ids, baselines[0].ids) | _flat(evidence)


def _copied(prompt: Sequence[int], answer: Sequence[int]) -> Row:
    """How many tokens of an answer a lookup proposes anything for, and how many of its proposals are right."""
    import torch

    from specdemo.drafters.ngram import NgramDrafter

    lookup = NgramDrafter(torch.device("cpu"))
    lookup.begin(torch.tensor(prompt), answer[0], None, 0)
    found = right = 0
    for token in answer[1:]:
        proposed, _ = lookup.look_up(1)
        found, right = found + bool(proposed), right + (proposed == [token])
        lookup.commit([token], 0, None)
    return {"looked up": len(answer) - 1, "lookup found": found, "lookup right": right}


def _flat(evidence: Evidence) -> Row:
    """As a row has it: a column for each sum of each position, from 1."""
    row: Row = {f"{name} {i}": getattr(at, name) for i, at in enumerate(evidence.positions, 1) for name in POSITION}
    drafts = evidence.surplus
    return row | {"drafts": len(drafts), "surplus": sum(drafts), "surplus²": sum(one**2 for one in drafts)}


# --- What the rows come to --------------------------------------------------------------------------------------------


def positions(rows: Sequence[Row]) -> list[dict[str, float]]:
    """The sums of each position over all prompts."""
    last = max((i for row in rows for i in range(1, MAX_GAMMA + 1) if f"reached {i}" in row), default=0)
    return [{name: sum(row.get(f"{name} {i}", 0) for row in rows) for name in POSITION} for i in range(1, last + 1)]


def cost_model(rows: Sequence[Row]) -> CostModel | None:
    """All prompts together, as metrics.cost_model has one; None where nothing was judged."""
    n = {name: sum(row[name] for row in rows) for name in ("plain s", "plain passes", "drafted", "passes", "draft s")}
    judged, accepted = (sum(row[name] for row in rows) for name in ("judged", "accepted"))
    if not judged or not n["plain s"]:
        return None
    step = n["plain s"] / n["plain passes"]
    squares, weighed = (sum(row[name] for row in rows) for name in ("drafted² of passes", "drafted × verify s"))
    return CostModel(
        accepted / judged,
        c=n["draft s"] / n["drafted"] / step,
        slope=max(0.0, (weighed / step - n["drafted"]) / squares),
        o=sum(row["other s"] for row in rows) / n["passes"] / step,
        drafts=sum(row["drafting passes"] for row in rows) / n["passes"],
    )


def shortfall(at: dict[str, float]) -> float | None:
    """Standard errors by which more was accepted than should be at a position; negative where less was.

    Whether a token is accepted is a coin of known chance, whatever came before: the sum is a martingale. None where
    chance has no part in it (greedy), or too little to tell.
    """
    return (at["accepted"] - at["expected"]) / sqrt(at["variance"]) if at["variance"] >= ENOUGH else None


def rule_faults(rows: Sequence[Row]) -> list[str]:
    """Findings about the rule itself: it accepts what p and q say it should, or it does not."""
    if any(row["rule"] == Rule.BLOCK.value and row["temperature"] for row in rows):
        return _block_faults(rows)
    places = positions(rows)
    together = {name: sum(at[name] for at in places) for name in POSITION}
    for name, at in [*((f"position {i}", at) for i, at in enumerate(places, 1)), ("all positions together", together)]:
        z = shortfall(at)
        certain = at["variance"] == 0 and abs(at["accepted"] - at["expected"]) > 0.5
        if certain or (z is not None and abs(z) > SURE):
            less = at["accepted"] < at["expected"]
            rate, should = at["accepted"] / at["judged"], at["expected"] / at["judged"]
            by = "with no chance in it" if certain else f"{abs(z):.1f} standard errors off"
            what = "drafts are lost that the target agrees with" if less else "the text is no longer the target's own"
            return [
                f"FAULT: the rule accepts {rate:.3f} of {at['judged']:.0f} judged tokens at {name}, where p and q say "
                f"{should:.3f} ({by}): {what}. Look for it in verification, in the noise or in what q is said to be, "
                "and at no draft."
            ]
    if not together["judged"]:
        return []
    rate, should = (together[name] / together["judged"] for name in ("accepted", "expected"))
    return [f"The rule does what p and q allow: {rate:.3f} accepted, {should:.3f} expected; no fault to be seen."]


def _block_faults(rows: Sequence[Row]) -> list[str]:
    """Block accepts at least what rejection would, on average over drafts."""
    n, total, squares = (sum(row[name] for row in rows) for name in ("drafts", "surplus", "surplus²"))
    if n < 2:
        return []
    mean = total / n
    error = sqrt(max(squares / n - mean**2, 0) / n)
    if mean < -SURE * error:
        return [
            f"FAULT: block accepts {-mean:.3f} tokens a draft less than rejection would; it should never, on average."
        ]
    return [f"The rule does what it should: block accepts {mean:+.3f} tokens a draft over what rejection would."]


def roof_of(rows: Sequence[Row]) -> Roof | None:
    """The plain step against the device's ceilings; None until both are measured."""
    device = [row for row in rows if row["kind"] == DEVICE]
    prompts = [row for row in rows if row["kind"] != DEVICE]
    passes = sum(row["plain passes"] for row in prompts)
    if not device or not passes:
        return None
    (row,) = device
    of = Footprint(row["weight bytes"], row["bytes per token held"], row["flops per token"])
    held, seconds = (sum(one[name] for one in prompts) / passes for name in ("tokens held", "plain s"))
    return roof(of, held, seconds, row["bytes/s"], row["flops/s"])


# --- What is said -----------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> list[Told]:
    """A line for each position of a draft: what it is worth, what it costs, how far draft and target are apart."""
    prompts = [row for row in rows if row["kind"] != DEVICE]
    model, places = cost_model(prompts) if prompts else None, positions(prompts)
    drafts = sum(row["drafting passes"] for row in prompts)
    lines, written = [], 1.0
    for i, at in enumerate(places, 1):
        gained = at["accepted"] / places[0]["reached"] if places[0]["reached"] else 0.0
        written += gained
        line = {
            "position": str(i),
            "judged": f"{at['judged']:.0f}",
            "accepted": shown(_share(at, "accepted", "judged"), decimals=3),
            "should be": shown(_share(at, "expected", "judged"), decimals=3),
            "TV": shown(_share(at, "tv", "told")),
            "KL": shown(_share(at, "kl", "finite")) if at["finite"] == at["told"] else "infinite",
            "worth, tokens": shown(gained),
        }
        if model is not None and drafts:
            line["costs, plain steps"] = shown(model.c + model.slope)
            whole = 1 + (model.c + model.slope) * i + model.o
            line["speedup to here"] = shown(written / whole) + "×"
        lines.append(line)
    return lines


def charts(rows: Sequence[Row]) -> list[Chart]:
    """What was accepted at each position of a draft, beside what p and q say should be."""
    places = positions([row for row in rows if row["kind"] != DEVICE])
    if not places:
        return []
    names = tuple(str(i) for i in range(1, len(places) + 1))
    marks = tuple(tuple(mark(_share(at, part, "judged")) for at in places) for part in ("accepted", "expected"))
    return [Chart("Accepted of the judged, by position", "position", names, ("accepted", "should be"), marks)]


def _share(at: dict[str, float], part: str, whole: str) -> float | None:
    return at[part] / at[whole] if at[whole] else None


def findings(rows: Sequence[Row]) -> list[str]:
    """Faults first; the speedup; then what it lacks, dearest first, each with what to do."""
    prompts = [row for row in rows if row["kind"] != DEVICE]
    if not prompts:
        return []
    said, model = [*faults(prompts), *rule_faults(prompts)], cost_model(prompts)
    said.sort(key=lambda sentence: not sentence.startswith("FAULT"))
    found = pooled(prompts)
    if model is None:
        return [*said, "Nothing was judged: the drafter proposed nothing. Take another draft, or lookup with one."]
    whole = f"{found[SPEEDUP]:.2f}×: {found[E]:.2f} tokens a pass of {found['pass']:.2f} plain steps"
    said.append(
        f"{whole} (drafting {_split(prompts)}); α is {found[ALPHA]:.2f} and a drafted token costs {model.c:.2f}."
    )
    gamma = round(max(row["γ"] for row in prompts))
    bound = roof_of(rows)
    return [*said, *_roof_said(bound), *_causes(prompts, model, gamma, bound)]


def _split(rows: Sequence[Row]) -> str:
    parts = {name: sum(row[f"{name} s"] for row in rows) for name in ("draft", "verify", "other")}
    whole = sum(parts.values()) or 1.0
    shares = [f"{share / whole:.0%}" for share in parts.values()]
    return f"{shares[0]} of the time, verifying {shares[1]}, the rest {shares[2]}"


def _roof_said(bound: Roof | None) -> list[str]:
    if bound is None:
        return []
    shares = (
        f"a plain step reaches {bound.memory:.0%} of what a copy moves and {bound.arithmetic:.0%} of a product's rate"
    )
    meaning = {
        Bound.MEMORY: "it is bound by memory, so judging several tokens for one reading has room to pay",
        Bound.ARITHMETIC: "it is bound by arithmetic, so every further token of a verification costs in full",
        Bound.OVERHEAD: "it is bound by neither, but by what surrounds its kernels: a faster plain step comes first",
    }
    return [f"On this device {shares}: {meaning[bound.bound]}."]


def _causes(rows: Sequence[Row], model: CostModel, gamma: int, bound: Roof | None) -> list[str]:
    """What would gain most if it were perfect and all else stayed as it is, first."""
    now = model.speedup(gamma)
    best, at_best = model.best(MAX_GAMMA)
    copied = sum(row["lookup right"] for row in rows) / max(sum(row["looked up"] for row in rows), 1)
    perfect = {
        "refused": CostModel(1.0, model.c, model.slope, model.o, model.drafts).speedup(gamma),
        "silent": CostModel(model.alpha, model.c, model.slope, model.o).speedup(gamma),
        "draft": CostModel(model.alpha, 0.0, model.slope, model.o, model.drafts).speedup(gamma),
        "verify": CostModel(model.alpha, model.c, 0.0, model.o, model.drafts).speedup(gamma),
        "other": CostModel(model.alpha, model.c, model.slope, 0.0, model.drafts).speedup(gamma),
        "length": at_best,
    }
    what = {
        "refused": f"refused drafts (α {model.alpha:.2f})",
        "silent": f"passes without a draft ({1 - model.drafts:.0%})",
        "draft": f"drafting ({model.c:.2f} of a plain step a token)",
        "verify": f"verification ({model.slope:.3f} of a plain step a drafted token)",
        "other": f"what surrounds both models ({model.o:.2f} of a plain step a pass)",
        "length": f"the draft length (γ {gamma})",
    }
    advice = _advice(model, best, at_best, copied, bound)
    order = sorted(perfect, key=perfect.get, reverse=True)
    said = [
        f"Costs most: {what[name]}; without it {perfect[name]:.2f}× instead of {now:.2f}×. {advice[name]}"
        if n == 0
        else f"Then: {what[name]}; without it {perfect[name]:.2f}×. {advice[name]}"
        for n, name in enumerate(order)
        if perfect[name] > now * (1 + LITTLE)
    ]
    if at_best <= now * (1 + LITTLE):
        said.append(f"γ {gamma} is within {LITTLE:.0%} of the best draft length, γ {best}, as predicted.")
    if at_best <= 1 + LITTLE:
        said.append("No draft length pays here: answer several requests at a time instead (`lab batch` says how many).")
    if copied > model.alpha and copied > 0.3:
        said.append(
            f"The text copies: a lookup alone is right for {copied:.0%} of the tokens; draft by lookup where it is."
        )
    return said


def _advice(model: CostModel, best: int, at_best: float, copied: float, bound: Roof | None) -> dict[str, str]:
    length = f"Take γ {best}: {at_best:.2f}× is predicted." if best else "Take γ 0: plain decoding is faster."
    heavy = bound is not None and bound.bound is Bound.ARITHMETIC
    return {
        "refused": "Distil a draft on this target's own outputs (`python -m specdemo distill`), or shorten γ.",
        "silent": f"Lookup finds nothing there ({copied:.0%} of the text copies): put a model or a head beside it.",
        "draft": "Take a smaller draft, or a head, which reads the target's own states; a shorter γ drafts less.",
        "verify": (
            "This device has no arithmetic to spare: shorten γ; a batch will not help either."
            if heavy
            else "Shorten γ, or take a precision whose kernels read weights once for several rows."
        ),
        "other": "Sampling, judging and the cache: greedy, or a smaller top-k, costs less than a nucleus.",
        "length": length,
    }


DIAGNOSE = Experiment(
    "diagnose",
    "Why not 3×? What is lost where, and what to do about it, dearest first.",
    DiagnoseOptions,
    cells,
    run,
    table,
    findings,
    charts=charts,
)
