"""The rows of the table: what each compares, on which prompts, and the goal it is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from specdemo.bench.contest import GREEDY, SAMPLED, Contest
from specdemo.bench.drafted import compare_drafts, drafted_by_generate, drafted_by_lane
from specdemo.bench.figures import figures_of, outside_share
from specdemo.bench.measure import busy_of, warm_up
from specdemo.bench.page_client import serve
from specdemo.bench.results import Goal, Result
from specdemo.bench.sides import Prompt, Sample, Side, Stopwatch, TimedRunner, run_generate, run_lane, sample_of
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.parting import find_parting
from specdemo.drafters.model import ModelDrafter
from specdemo.models.pair import Pair, eos_ids
from specdemo.race import Lane, race

OURS, THEIRS = "ours", "generate"


def baseline_over_generate(contest: Contest) -> list[Result]:
    """Row a: plain decoding, ours over transformers'."""
    ours = solo(contest, OURS, contest.ngram, Lane.BASELINE)
    theirs = Side.of(THEIRS, generated(contest))
    result = _versus(contest, ours, theirs, contest.prompts("other"))
    return [replace(result, row="a", what="our baseline over generate()", goal=Goal(at_least=1.1))]


def ngram_over_prompt_lookup(contest: Contest) -> list[Result]:
    """Row b: lookup, ours over transformers', where the answer copies the prompt."""
    ours = solo(contest, OURS, contest.ngram, Lane.SPECULATIVE)
    gamma = contest.settings.gamma
    theirs = Side.of(THEIRS, generated(contest, prompt_lookup_num_tokens=gamma))
    result = _versus(contest, ours, theirs, contest.prompts("copying"))
    what = f"our n-gram lane over generate(prompt_lookup_num_tokens={gamma}), copying"
    return [replace(result, row="b", what=what, goal=Goal(at_least=1.3))]


def model_over_assisted(contest: Contest) -> list[Result]:
    """Row c: the same draft model and γ, ours over transformers'; what both drafted must be equal."""
    prompts = contest.prompts("other")[:1]
    ours = solo(contest, OURS, contest.model, Lane.SPECULATIVE)
    theirs = Side.of(THEIRS, generated(contest, assistant_model=contest.assistant))
    result = _versus(contest, ours, theirs, prompts)
    notes, faults = _drafts_agree(contest, prompts)
    layers = contest.settings.draft_layers
    what = f"our lane with a model draft (first {layers} layers) over generate(assistant_model=the same)"
    notes, faults = (*result.notes, *notes), (*result.faults, *faults)
    return [replace(result, row="c", what=what, goal=Goal(at_least=1.5), notes=notes, faults=faults)]


def outside_the_forwards(contest: Contest) -> list[Result]:
    """Row d: the share of a round that is spent outside the two models' forwards."""
    cases = [
        (f"{name}, {how}", _timed(contest, f"{name}, {how}", pair, params))
        for name, pair in (("n-gram", contest.ngram), ("model draft", contest.model))
        for how, params in (("greedy", GREEDY), ("temperature 1, top-p 0.95", SAMPLED))
    ]
    sides, prompts = [side for _, side in cases], contest.prompts("copying")[:1]
    warm_up(sides, prompts)
    repeats = contest.measure(sides, prompts)
    return [
        Result(
            row="d",
            what=f"outside the forwards, {what}",
            values=tuple(outside_share(repeat.samples[side.name]) for repeat in repeats),
            goal=Goal(at_most=0.06),
            unit="%",
            figures={side.name: figures_of(repeats, side.name)},
            busy=busy_of(repeats),
        )
        for what, side in cases
    ]


def raced_over_solo(contest: Contest) -> list[Result]:
    """Row e: a lane's tokens/s in a race, by its own clock, over the same lane running free."""
    raced = Side("raced", lambda prompt: _raced(contest, prompt))
    return _over_solo(contest, contest.ngram, raced, "e", "raced over solo", Goal(at_least=0.97, at_most=1.03))


def page_over_solo(contest: Contest) -> list[Result]:
    """Row f: a lane's tokens/s on the real page while a client reads its stream, over the same lane running free."""
    s = contest.settings
    options = ["--target", s.target, "--target-precision", s.precision, *(["--device", s.device] if s.device else [])]
    with serve(options) as page:

        def run(prompt: Prompt) -> dict[str, Sample]:
            lanes = page.run(prompt.text, max_new_tokens=s.new_tokens, gamma=s.gamma)
            return {f"{lane}, on the page": sample for lane, sample in lanes.items()}

        side = Side("on the page", run)
        # the page knows where a text ends, so here the lane that it is compared with does too
        pair = replace(contest.ngram, eos_ids=eos_ids(contest.ngram.loaded))
        return _over_solo(contest, pair, side, "f", "on the page, read but not drawn, over solo", Goal(at_least=0.95))


def lane_over_baseline(contest: Contest, pair: Pair, prompts: Sequence[Prompt]) -> Result:
    """The speculative lane's tokens/s over the baseline's; row, what and goal are the caller's."""
    sides = [solo(contest, lane, pair, lane) for lane in Lane]
    wrote = warm_up(sides, prompts)
    parted = [p.name for p in prompts if wrote[Lane.BASELINE, p.name].ids != wrote[Lane.SPECULATIVE, p.name].ids]
    repeats = contest.measure(sides, prompts)
    return Result(
        row="",
        what="",
        values=tuple(repeat.speed(Lane.SPECULATIVE) / repeat.speed(Lane.BASELINE) for repeat in repeats),
        goal=Goal(),
        figures={lane: figures_of(repeats, lane) for lane in Lane},
        notes=(f"texts identical on {len(prompts) - len(parted)} of {len(prompts)} prompts",),
        faults=tuple(f"{name}: the lanes' texts part" for name in parted) if pair.bits_promised else (),
        busy=busy_of(repeats),
    )


ROWS: dict[str, Callable[[Contest], list[Result]]] = {
    "a": baseline_over_generate,
    "b": ngram_over_prompt_lookup,
    "c": model_over_assisted,
    "d": outside_the_forwards,
    "e": raced_over_solo,
    "f": page_over_solo,
}


# --- Sides -----------------------------------------------------------------------------------------------------------


def solo(contest: Contest, name: str, pair: Pair, lane: Lane) -> Side:
    return Side.of(name, lambda prompt: run_lane(contest.lane(pair, lane, prompt), pair.target.device))


def generated(contest: Contest, **options: object) -> Callable[[Prompt], Sample]:
    """transformers' own answer."""
    return lambda prompt: run_generate(contest.reference, prompt.ids, contest.settings.new_tokens, **options)


def _timed(contest: Contest, name: str, pair: Pair, params: SamplingParams) -> Side:
    """The speculative lane with timers around both models' forwards."""
    stopwatch = Stopwatch()
    timed = replace(pair, target_twin=TimedRunner(pair.target_twin, stopwatch))
    if isinstance(pair.drafter, ModelDrafter):
        timed = replace(timed, drafter=ModelDrafter(TimedRunner(pair.drafter.runner, stopwatch)))

    def run(prompt: Prompt) -> Sample:
        return run_lane(contest.lane(timed, Lane.SPECULATIVE, prompt, params), pair.target.device, stopwatch)

    return Side.of(name, run)


def _raced(contest: Contest, prompt: Prompt) -> dict[str, Sample]:
    steps = {lane: [] for lane in Lane}
    for lane_step in race(contest.ngram, contest.request(prompt)):
        steps[lane_step.lane].append(lane_step.step)
    return {f"{lane}, raced": sample_by_clock(seen) for lane, seen in steps.items()}


def sample_by_clock(steps: Sequence) -> Sample:
    """A lane's Sample by its own clock."""
    first, *later = (step.seconds for step in steps)
    return sample_of(steps, sum(later), first + sum(later))


# --- Comparing -------------------------------------------------------------------------------------------------------


def _versus(contest: Contest, ours: Side, theirs: Side, prompts: Sequence[Prompt]) -> Result:
    """Ours over theirs in tokens/s, with the texts checked; row, what and goal are the caller's."""
    notes, faults = texts_agree(contest, warm_up([ours, theirs], prompts), prompts)
    repeats = contest.measure([ours, theirs], prompts)
    whole = median(repeat.whole_speed(OURS) / repeat.whole_speed(THEIRS) for repeat in repeats)
    return Result(
        row="",
        what="",
        values=tuple(repeat.speed(OURS) / repeat.speed(THEIRS) for repeat in repeats),
        goal=Goal(),
        figures={name: figures_of(repeats, name) for name in (OURS, THEIRS)},
        notes=(f"whole calls, prefill included: {whole:.2f}×", *notes),
        faults=faults,
        busy=busy_of(repeats),
    )


def _over_solo(contest: Contest, pair: Pair, together: Side, row: str, what: str, goal: Goal) -> list[Result]:
    """Each lane's speed in `together`, whose samples are named "<lane>, <its name>", over the lane running free."""
    alone = [solo(contest, f"{lane}, solo", pair, lane) for lane in Lane]
    prompts = contest.prompts("copying")[:1]
    warm_up([*alone, together], prompts)
    repeats = contest.measure([*alone, together], prompts)
    names = {lane: (f"{lane}, {together.name}", f"{lane}, solo") for lane in Lane}
    return [
        Result(
            row=row,
            what=f"{what}, {lane} lane",
            values=tuple(repeat.speed(names[lane][0]) / repeat.speed(names[lane][1]) for repeat in repeats),
            goal=goal,
            figures={name: figures_of(repeats, name) for name in names[lane]},
            busy=busy_of(repeats),
        )
        for lane in Lane
    ]


# --- Checks ----------------------------------------------------------------------------------------------------------


def texts_agree(
    contest: Contest, wrote: dict[tuple[str, str], Sample], prompts: Sequence[Prompt], theirs: str = THEIRS
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Notes and faults: whether both sides wrote the same tokens, a near-tie being a note."""
    notes, faults, same = [], [], 0
    for prompt in prompts:
        mine, other = wrote[OURS, prompt.name].ids, wrote[theirs, prompt.name].ids
        parting = find_parting(contest.ngram.target, prompt.ids, GREEDY, mine, other)
        same += parting is None
        if parting is not None:
            gap = "no gap to measure" if parting.gap is None else f"logit gap {parting.gap:.2g}"
            place = f"{prompt.name}: the texts part at token {parting.index + 1} ({gap})"
            (notes if parting.tie else faults).append(place)
    return (f"texts identical on {same} of {len(prompts)} prompts", *notes), tuple(faults)


def _drafts_agree(contest: Contest, prompts: Sequence[Prompt]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Notes and faults: whether both sides drafted the same tokens, in a run of its own.

    `generate` drafts before the prompt has been run, our lane after the first token: it is given that token as the
    end of its prompt, so that its rounds begin where ours do.
    """
    equal = ties = tokens = 0
    faults = []
    for prompt in prompts:
        steps = list(contest.lane(contest.model, Lane.SPECULATIVE, prompt))
        text = [token.id for step in steps for token in step.tokens]
        with drafted_by_generate(len(prompt.ids)) as theirs:
            run_generate(
                contest.reference,
                (*prompt.ids, text[0]),
                contest.settings.new_tokens - 1,
                assistant_model=contest.assistant,
            )
        ours = drafted_by_lane(steps)
        agreement = compare_drafts(ours, theirs, contest.model.drafter.runner, prompt.ids, text)
        equal, ties = equal + agreement.equal, ties + agreement.ties
        tokens += sum(map(len, ours.values()))
        faults += [f"{prompt.name}: {fault}" for fault in agreement.faults]
    tied = f", {ties} parted at a near-tie" if ties else ""
    return (f"drafted tokens equal in {equal} rounds ({tokens} tokens){tied}",), tuple(faults)
