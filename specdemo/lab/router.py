"""Does it pay to choose the drafter by the prompt? Several drafters for one target, and a rule learned elsewhere.

The rule goes by the kind that a prompt looks like, or by one threshold on one feature of it, or takes one drafter for
all: what was fastest on learning prompts that it had not been learned from. It is then held against every single
drafter on the test prompts. (Choosing at every step, by lookup where it matches and a model elsewhere, is a drafter
itself, as in ngram+embedded, and takes part as one.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Rule
from specdemo.examples import load_examples
from specdemo.lab.chart import Chart, mark
from specdemo.lab.experiment import Experiment, LabRefused, Row, Told
from specdemo.lab.options import DRAFTER, GAMMA, TEMPERATURE, TOKENS, OneOf, Several, option
from specdemo.lab.pooled import SPEEDUP, figures, having, interval, interval_of, pooled, prompt_of, shown, speedup_of
from specdemo.lab.prompt_files import PromptSet, TaskPrompt, read_prompts, read_set
from specdemo.lab.prompts import TASKS, Asked, PromptOptions, prompt_ids
from specdemo.lab.runs import faults, measured
from specdemo.models.pair_options import EMBEDDED, usual_drafters
from specdemo.prompt_kind import features, kind_of
from specdemo.race import Request

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

LEARNING, TEST = "learning", "test"
ROUTED, BEST_OF_EACH = "routed", "the best of each prompt"
FEATURES = tuple(features(""))
LOOKS_LIKE = "looks like"
FOLDS, THRESHOLDS = 16, 16  # at most: a rule is learned whenever a result is shown


@dataclass(frozen=True, slots=True)
class Route:
    """Which drafter takes a prompt: `above` where the feature is over the threshold, else `below`.

    feature: None where one drafter takes all, but for the kinds of prompt that `by_kind` names.
    """

    below: str
    above: str = ""
    feature: str | None = None
    threshold: float = 0.0
    by_kind: tuple[tuple[str, str], ...] = ()

    def of(self, row: Row) -> str:
        """The drafter for the prompt of a row."""
        if self.feature is not None:
            return self.below if row[self.feature] <= self.threshold else self.above
        return dict(self.by_kind).get(row[LOOKS_LIKE], self.below)

    def __str__(self) -> str:
        if self.by_kind:
            by_drafter: dict[str, list[str]] = {}
            for kind, drafter in self.by_kind:
                by_drafter.setdefault(drafter, []).append(kind)
            named = "; ".join(f"{drafter} for {', '.join(kinds)}" for drafter, kinds in by_drafter.items())
            return f"{named}; {self.below} for what looks like anything else"
        if self.feature is None:
            return f"{self.below} for every prompt"
        return f"{self.above} where {self.feature} is over {self.threshold:.3g}, else {self.below}"


def _alone(rows: Sequence[Row]) -> Route:
    """One drafter for all."""
    return max(map(Route, _names(rows)), key=lambda route: speedup_of(routed(rows, route)))


def _by_threshold(rows: Sequence[Row]) -> Route:
    """Two drafters, on either side of a threshold."""
    routes = [_alone(rows)]
    for feature in FEATURES:
        values = sorted({row[feature] for row in rows})
        values = values[:: max(1, len(values) // THRESHOLDS)]
        for low, high in pairwise(values):
            pairs = [(a, b) for a, b in product(_names(rows), repeat=2) if a != b]
            routes += [Route(below, above, feature, (low + high) / 2) for below, above in pairs]
    return max(routes, key=lambda route: speedup_of(routed(rows, route)))


def _by_kind(rows: Sequence[Row]) -> Route:
    """For each kind that prompts look like, the drafter that was best on it."""
    best = _alone(rows)
    kinds = list(dict.fromkeys(row[LOOKS_LIKE] for row in rows))
    choices = tuple((kind, _alone([row for row in rows if row[LOOKS_LIKE] == kind]).below) for kind in kinds)
    return Route(best.below, by_kind=choices) if {name for _, name in choices} != {best.below} else best


def learned(rows: Sequence[Row]) -> Route:
    """A route for prompts like these, of the family that does best on some of them when learned from the others.

    The richer a family, the better it fits what it has seen; the simplest comes first where two do equally well.
    """
    prompts = list(dict.fromkeys(prompt_of(row) for row in rows))

    def unseen(family: Callable[[Sequence[Row]], Route]) -> float:
        taken = []
        for held in (set(prompts[i::FOLDS]) for i in range(min(FOLDS, len(prompts)))):
            others = [row for row in rows if prompt_of(row) not in held]
            taken += routed([row for row in rows if prompt_of(row) in held], family(others))
        return speedup_of(taken)

    families = (_alone, _by_threshold, _by_kind)
    return max(families, key=unseen)(rows) if len(prompts) > 1 else _alone(rows)


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["drafter"] for row in rows))


def routed(rows: Sequence[Row], route: Route) -> list[Row]:
    """Of every prompt, the row of the drafter that the route takes."""
    return [row for row in rows if row["drafter"] == route.of(row)]


# --- The experiment ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RouterOptions(PromptOptions):
    """Every drafter answers every prompt, of both parts."""

    drafters: tuple[str, ...] = option(usual_drafters(EMBEDDED), "who may draft, as `run` names them", Several(DRAFTER))
    learn_from: PromptSet | None = option(
        None, "a file of prompts to learn the rule from (this project's examples and bench prompts)", read_set
    )
    gamma: int = option(4, "draft length", GAMMA)
    temperature: float = option(0.0, "0 is greedy", TEMPERATURE)
    rule: Rule = option(Rule.SHARED_NOISE, "how a draft is judged", OneOf(Rule))
    max_new_tokens: int = option(96, "tokens that each answer may have", TOKENS)

    def parts(self) -> dict[tuple[str, str, str], str]:
        """The text of every prompt by part, kind and name; raises LabRefused where the parts share one."""
        learning, test = self._learning(), self.read()
        if shared := {prompt.text for prompt in learning} & {prompt.text for prompt in test}:
            raise LabRefused(f"A prompt is both learned from and tested on: {min(shared)[:60]!r}. Take it out of one.")
        of_parts = ((LEARNING, learning), (TEST, test))
        return {(part, one.kind, one.name): one.text for part, prompts in of_parts for one in prompts}

    def texts(self) -> list[str]:
        """Of both parts."""
        return list(self.parts().values())

    def _learning(self) -> Sequence[TaskPrompt]:
        if self.learn_from:
            return self.learn_from.prompts
        examples = [TaskPrompt("examples", one["task"], one["prompt"]) for one in load_examples()]
        return examples + read_prompts(TASKS.with_name("bench.json"))


def cells(options: RouterOptions) -> list[Row]:
    """Every prompt with every drafter; a prompt's features are known beforehand."""
    if len(options.drafters) < 2:
        raise LabRefused("A choice takes at least two drafters: name them with --drafters, as in ngram,PATH.")
    return [
        {"part": part, "kind": kind, "prompt": name, "drafter": drafter, LOOKS_LIKE: kind_of(text)} | features(text)
        for (part, kind, name), text in options.parts().items()
        for drafter in options.drafters
    ]


def run(pair: Pair, options: RouterOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """All drafters on a prompt beside one plain lane."""
    pairs = {name: pair.switch_drafter(name) for name in dict.fromkeys(cell["drafter"] for cell in todo)}
    asked = {
        prompt: Asked(prompt_ids(pair, text), options.seed + n)
        for n, (prompt, text) in enumerate(options.parts().items())
    }

    def prompt(cell: Row) -> tuple[str, str, str]:
        return cell["part"], cell["kind"], cell["prompt"]

    def contestant(cell: Row) -> tuple[Pair, Request]:
        one = asked[prompt(cell)]
        params = SamplingParams(options.temperature, seed=one.seed)
        return pairs[cell["drafter"]], Request(one.ids, params, options.rule, options.gamma, options.max_new_tokens)

    for row in measured(todo, contestant, prompt):
        yield None if row is None else row | {"γ": options.gamma}


def _best_of_each(rows: Sequence[Row]) -> list[Row]:
    """What a router that knew the outcome would take."""
    prompts = dict.fromkeys((row["kind"], row["prompt"]) for row in rows)
    return [
        max(having(rows, kind=kind, prompt=name), key=lambda row: pooled([row])[SPEEDUP] or 0.0)
        for kind, name in prompts
    ]


def _drafters(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {drafter: having(rows, drafter=drafter) for drafter in _names(rows)}


def _whole(rows: Sequence[Row], part: str) -> list[Row]:
    """The part's rows, of those prompts that every drafter has answered."""
    mine = having(rows, part=part)
    drafters = {row["drafter"] for row in rows}
    answered = Counter((row["kind"], row["prompt"]) for row in mine)
    return [row for row in mine if answered[row["kind"], row["prompt"]] == len(drafters)]


def table(rows: Sequence[Row]) -> list[Told]:
    """Every drafter alone, the route, and what hindsight would reach: on the learning prompts and on the others."""
    lines: dict[str, Told] = {}
    for part, sides in _sides(rows).items():
        for name, of in sides.items():
            speedup = shown(pooled(of)[SPEEDUP], interval_of(of, SPEEDUP)) if of else "–"
            lines.setdefault(name, {"drafter": name})[f"speedup, {part} prompts"] = speedup
    return list(lines.values())


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The same, as far as it was measured."""
    parts = _sides(rows)
    if not parts:
        return []
    names = tuple(parts[LEARNING])
    marks = tuple(
        tuple(mark(pooled(of)[SPEEDUP], interval_of(of, SPEEDUP)) if of else None for of in map(sides.get, names))
        for sides in parts.values()
    )
    return [Chart("Speedup by drafter", "drafter", names, tuple(f"{part} prompts" for part in parts), marks, even=1.0)]


def _sides(rows: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """By part: the rows of every drafter, of the route and of hindsight; nothing before there is a route."""
    parts = {part: _whole(rows, part) for part in (LEARNING, TEST)}
    if not parts[LEARNING]:
        return {}
    route = learned(parts[LEARNING])
    return {
        part: _drafters(mine) | {ROUTED: routed(mine, route), BEST_OF_EACH: _best_of_each(mine)}
        for part, mine in parts.items()
    }


def findings(rows: Sequence[Row]) -> list[str]:
    """What was learned, and whether it wins on prompts that it was not learned from."""
    learning, test = _whole(rows, LEARNING), _whole(rows, TEST)
    if not learning or not test:
        return faults(rows)
    route = learned(learning)
    mine = routed(test, route)
    alone = _drafters(test)
    best = max(alone, key=lambda drafter: pooled(alone[drafter])[SPEEDUP] or 0.0)
    said = [f"Learned from {len(learning) // len(alone)} other prompts: {route}."]
    reached, single = (pooled(of)[SPEEDUP] or 0.0 for of in (mine, alone[best]))
    oracle = pooled(_best_of_each(test))[SPEEDUP] or 0.0
    left = f"A router that knew the outcome would reach {oracle:.2f}×."
    if {row["drafter"] for row in mine} == {best}:
        return [
            *said,
            f"It takes {best} for all of the test prompts, so the router does not win. {left}",
            *faults(rows),
        ]
    ratio = interval([mine, alone[best]], lambda a, b: figures(a)[SPEEDUP] / figures(b)[SPEEDUP])
    speeds = f"{reached:.2f}× against {single:.2f}× of {best} alone"
    about = f"over these prompts {ratio[0]:.2f} to {ratio[1]:.2f} times it" if ratio else "on one prompt"
    if ratio and ratio[0] > 1:
        verdict = "The router wins"
    elif reached > single:
        verdict = "The router does not win for certain"
    else:
        verdict = "The router does not win"
    return [*said, f"{verdict}: {speeds} ({about}). {left}", *faults(rows)]


ROUTER = Experiment(
    "router",
    "Does it pay to choose the drafter by the prompt, over the best single one?",
    RouterOptions,
    cells,
    run,
    table,
    findings,
    charts=charts,
)
