"""What is a drafter worth on what people ask? Six kinds of held-out prompts, every drafter over our own baseline.

Both lanes are the page's: the same engine, sampling and ends of text. On each prompt the baseline runs before all
drafters and after them, and both runs count; the drafters between them change their order from repeat to repeat. So one
baseline serves them all, and drift meets it as it meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from specdemo.bench.measure import Repeat, Watcher, busy_of, interleave, warm_up
from specdemo.bench.sides import Prompt, Sample, Side, run_lane
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from specdemo.decoding.steps import DraftLength, Rule
from specdemo.lab.pooled import COST, FIRST, LENGTH, VERIFICATION, E, counts, pooled
from specdemo.lab.prompt_files import read_prompts
from specdemo.lab.prompts import TASKS, chosen, prompt_ids
from specdemo.metrics import identity_promised
from specdemo.models.pair import Pair, load_pair
from specdemo.models.pair_options import AUTO, EMBEDDED, NGRAM, PairSpec
from specdemo.race import Lane, Request, check, lanes

KINDS = ("chat", "code", "json/sql", "summarise", "maths", "story")
SAMPLINGS = {
    "greedy": (0.0, Rule.SHARED_NOISE),
    "rejection": (1.0, Rule.REJECTION),
    "shared-noise": (1.0, Rule.SHARED_NOISE),
}
BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What a person may set. gammas, draft_lengths: each drafter runs with each of both. per_kind: prompts, None: all.

    Temperature 1 draws prompt n of a kind with seed n, in every repeat.
    """

    target: str = EMBEDDED
    precision: str = AUTO
    device: str | None = None
    drafters: tuple[str, ...] = (NGRAM,)
    kinds: tuple[str, ...] = KINDS
    samplings: tuple[str, ...] = tuple(SAMPLINGS)
    gammas: tuple[int, ...] = (5,)
    draft_lengths: tuple[DraftLength, ...] = (DraftLength.FIXED,)
    new_tokens: int = 128
    per_kind: int | None = None
    repeats: int = 3
    quick: bool = False
    prompts: Path = TASKS


@dataclass(frozen=True, slots=True)
class Contestant:
    """Who drafts, and how long."""

    drafter: str
    gamma: int
    draft_length: DraftLength = DraftLength.FIXED

    @property
    def name(self) -> str:
        """To print."""
        policy = "" if self.draft_length is DraftLength.FIXED else f", {self.draft_length}"
        return f"{self.drafter}, γ {self.gamma}{policy}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One contestant on one kind under one sampling. speedups: one a repeat. figures: see `figures`.

    notes, faults: of the texts, where the same words are promised. busy: who else worked meanwhile.
    """

    kind: str
    sampling: str
    contestant: Contestant
    speedups: tuple[float, ...]
    figures: dict[str, float]
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


@dataclass
class TaskContest:
    """The pairs, one a drafter over the same target, and what is measured with them."""

    settings: TaskSettings
    watch: Watcher
    tell: Callable[[str], None]
    pairs: dict[str, Pair]

    @classmethod
    def load(cls, settings: TaskSettings, watch: Watcher, tell: Callable[[str], None]) -> TaskContest:
        """Load every pair, so that what cannot be had is refused before anything is measured."""
        s = settings
        first, *others = s.drafters
        pair = load_pair(PairSpec(s.target, first, target_precision=s.precision, device=s.device))
        contest = cls(s, watch, tell, {first: pair} | {name: pair.switch_drafter(name) for name in others})
        for prompt in (prompt for kind in s.kinds for prompt in contest.prompts(kind)):
            for sampling, contestant in product(s.samplings, contest.contestants):
                check(contest.pairs[contestant.drafter], contest.request(prompt, sampling, contestant))
        return contest

    @property
    def contestants(self) -> list[Contestant]:
        """Every drafter with every draft length."""
        s = self.settings
        return [Contestant(*one) for one in product(s.drafters, s.gammas, s.draft_lengths)]

    def measure(self) -> list[Cell]:
        """Every kind under every sampling, told as it comes."""
        cells = []
        for sampling in self.settings.samplings:
            for i, kind in enumerate(self.settings.kinds):
                cells += self._cells(sampling, kind, warm=i == 0)
        return cells

    def prompts(self, kind: str) -> list[Prompt]:
        """Of a kind; named by their number, from 1."""
        found = chosen(read_prompts(self.settings.prompts), (kind,), self.settings.per_kind)
        pair = next(iter(self.pairs.values()))
        return [Prompt(str(n), prompt_ids(pair, prompt.text)) for n, prompt in enumerate(found, 1)]

    def request(self, prompt: Prompt, sampling: str, contestant: Contestant) -> Request:
        """What both lanes are asked."""
        temperature, rule = SAMPLINGS[sampling]
        return Request(
            prompt_ids=prompt.ids,
            params=SamplingParams(temperature=temperature, seed=int(prompt.name)),
            rule=rule,
            gamma=contestant.gamma,
            max_new_tokens=self.settings.new_tokens,
            draft_length=contestant.draft_length,
        )

    def _side(self, name: str, lane: Lane, sampling: str, contestant: Contestant) -> Side:
        pair = self.pairs[contestant.drafter]

        def run(prompt: Prompt) -> Sample:
            steps = lanes(pair, self.request(prompt, sampling, contestant))[lane]
            return run_lane(steps, pair.target.device)

        return Side.of(name, run)

    def _cells(self, sampling: str, kind: str, warm: bool) -> list[Cell]:
        contestants, prompts = self.contestants, self.prompts(kind)
        sides = [self._side(one.name, Lane.SPECULATIVE, sampling, one) for one in contestants]
        baseline = self._side(BASELINE, Lane.BASELINE, sampling, contestants[0])
        if warm:
            warm_up([baseline, *sides], prompts[:1])
        repeats = interleave(sides, prompts, self.settings.repeats, self.watch, around=baseline)
        cells = [self._cell(sampling, kind, one, prompts, repeats) for one in contestants]
        said = ", ".join(f"{cell.contestant.name} {median(cell.speedups):.2f}×" for cell in cells)
        self.tell(f"{sampling}, {kind}: {said}")
        return cells

    def _cell(
        self, sampling: str, kind: str, contestant: Contestant, prompts: Sequence[Prompt], repeats: Sequence[Repeat]
    ) -> Cell:
        name = contestant.name
        padding = self.pairs[contestant.drafter].padding  # of the plain step: what is quoted is over the fastest one
        each = [_figures(repeat, name, padding) for repeat in repeats]
        notes, faults = self._texts(sampling, contestant, prompts, repeats)
        return Cell(
            kind,
            sampling,
            contestant,
            speedups=tuple(speedup(repeat, name, padding) for repeat in repeats),
            figures={key: median(figures[key] for figures in each) for key in each[0]},
            notes=notes,
            faults=faults,
            busy=busy_of(repeats),
        )

    def _texts(
        self, sampling: str, contestant: Contestant, prompts: Sequence[Prompt], repeats: Sequence[Repeat]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notes and faults: where the same words are promised and the lanes' texts part, by a near-tie or not."""
        temperature, rule = SAMPLINGS[sampling]
        if not identity_promised(rule, temperature):
            return (), ()
        pair, notes, faults = self.pairs[contestant.drafter], [], []
        for n, prompt in enumerate(prompts):
            wrote = {(r.samples[BASELINE][2 * n].ids, r.samples[contestant.name][n].ids) for r in repeats}
            for mine, other in wrote:
                params = self.request(prompt, sampling, contestant).params
                parting = find_parting(pair.target, prompt.ids, params, mine, other)
                if parting is not None:
                    tie = parting.tie and not pair.bits_promised
                    place = f"prompt {prompt.name}: the texts part at token {parting.index + 1}"
                    (notes if tie else faults).append(place + (", a near-tie" if tie else ""))
        return tuple(notes), tuple(faults)


def speedup(repeat: Repeat, name: str, padding: float) -> float:
    """Over both runs of the baseline; nan where every answer ended with its first token."""
    plain = repeat.speed(BASELINE)
    return repeat.speed(name) / plain / padding if plain else float("nan")


def _figures(repeat: Repeat, name: str, padding: float) -> dict[str, float]:
    """Over all prompts of a kind, beside both runs of the baseline (see lab.pooled.figures); nan where there is none.

    padding: what a plain step costs over the fastest one.
    """
    plain = [sample.metrics for sample in repeat.samples[BASELINE]]
    lanes = [sample.metrics for sample in repeat.samples[name]]
    found = pooled([counts(lane, plain[2 * n : 2 * n + 2], padding) for n, lane in enumerate(lanes)])
    return {key: float("nan") if found[key] is None else found[key] for key in (FIRST, LENGTH, E, COST, VERIFICATION)}
