"""What does one step cost, and a verification of γ + 1 tokens beside it? The rows of `bench --steps`.

Two facts decide whether speculation can gain anything: the plain step, and v(γ). They are measured here on the
engine's own forward, beside the general one and transformers' `generate()`, with what a round and a draft cost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import psutil
import torch
from torch import Tensor

from specdemo.bench.contest import GREEDY, Contest
from specdemo.bench.measure import Turn, busy_of, take_turns
from specdemo.bench.random_head import DRAFT_VOCABULARY, random_head
from specdemo.bench.results import Goal, Result
from specdemo.bench.rows import lane_over_baseline, outside_the_forwards
from specdemo.bench.sides import run_generate, run_lane
from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.clock import settle
from specdemo.decoding.dice import Dice
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.policy import Fixed
from specdemo.decoding.runner import Output, Runner, prefill
from specdemo.decoding.sampling import Sampler
from specdemo.decoding.steps import Rule
from specdemo.models.allocator import give_back_freed_memory
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.loading import load_model
from specdemo.models.precision import DTYPES, Precision
from specdemo.models.runners import make_runner

HELD, SHORT = 256, 64  # tokens before the steps; before those of whole decoders, which read them anew each time
STEPS = 8  # timed at once
GAMMAS = (*range(1, 9), 12, 16)
DRAFTED = 9  # by the head; the first comes with the round before, so this many less one are timed
LONG = 6000  # tokens of the long prompt
LONG_REPEATS = 3
BYTES = 2**20


# --- The plain step --------------------------------------------------------------------------------------------------


def plain_step(contest: Contest) -> list[Result]:
    """Row g: a plain step of ours and of the general forward, in each float precision, beside eager `generate()`."""
    ids = _ids(contest, SHORT)
    takes: dict[str, Callable[[], float]] = {}
    for precision in _precisions(contest):
        takes = _plain_takes(contest, precision, ids) | takes  # the first of a name stays
    turns = take_turns(takes, contest.settings.repeats, contest.watch, contest.tell)
    ours = f"ours {_asked(contest)}"
    eager = [name for name in takes if name.startswith("generate")]
    best = min(eager, key=lambda name: median(turn.seconds[name] for turn in turns))
    same = f"generate {_theirs(contest)}"
    return [
        replace(
            _ratio("g", f"a step of {other} over our plain step{note}", turns, other, ours, Goal(at_least=goal)),
            figures={name: {"ms a step": _milliseconds(turns, name)} for name in takes},
        )
        for other, note, goal in ((same, "", 1.5), (best, ", its best precision", 1.2))
    ]


def _plain_takes(contest: Contest, precision: Precision, ids: list[int]) -> dict[str, Callable[[], float]]:
    """Ways to take plain steps in a precision, each giving the seconds of one."""
    asked = precision is _asked(contest)
    pair = contest.ngram
    model = contest.reference if asked else load_model(pair.loaded.source, precision, pair.target.device).model
    model.generation_config = contest.reference.generation_config
    theirs = _theirs(contest) if asked else precision
    general, vocabulary = GeneralRunner(model), pair.target.vocab_size
    ours = pair.target if asked else make_runner(model, vocabulary)
    takes = {
        f"generate {theirs}": lambda: _generate_step(model, ids),
        f"general {theirs}": lambda: _lane_step(general, ids),
    }
    return {f"ours {precision}": lambda: _lane_step(ours, ids), **takes}


def _generate_step(model: object, ids: list[int]) -> float:
    sample = run_generate(model, ids, STEPS + 1)
    return sample.seconds / sample.passes


def _lane_step(runner: Runner, ids: list[int]) -> float:
    """Of the baseline lane: with what it does beside the forward."""
    steps = autoregressive(runner, ids, GREEDY, Ending(Limits(STEPS + 1, runner.max_length), len(ids)))
    sample = run_lane(steps, runner.device)
    return sample.seconds / sample.passes


# --- Verification and drafting ---------------------------------------------------------------------------------------


def verification(contest: Contest) -> list[Result]:
    """Row v: a forward of γ + 1 rows over a forward of one."""
    runner, ids = contest.ngram.target, _ids(contest, HELD + max(GAMMAS) + 1)
    _hold(runner, ids[:HELD])
    takes = {f"{n} rows": _forward_take(runner, ids, n) for n in (1, *(gamma + 1 for gamma in GAMMAS))}
    turns = take_turns(takes, contest.settings.repeats, contest.watch, contest.tell)
    half = DTYPES[_theirs(contest)] in (torch.bfloat16, torch.float16)
    goals = {4: 1.15, 8: 1.25} if half else {4: 1.3}
    figures = {f"{gamma + 1} rows": {"ms": _milliseconds(turns, f"{gamma + 1} rows")} for gamma in (0, *GAMMAS)}
    return [
        replace(
            _ratio("v", f"v({gamma})", turns, f"{gamma + 1} rows", "1 rows", Goal(at_most=goals.get(gamma))),
            figures=figures if gamma == GAMMAS[-1] else {},
        )
        for gamma in GAMMAS
    ]


def draft_step(contest: Contest) -> list[Result]:
    """Row h: one step of a one-layer head with a pruned vocabulary over a plain step."""
    runner, loaded = contest.ngram.target, contest.ngram.loaded
    config = loaded.model.config.get_text_config(decoder=True)
    embedding = loaded.model.get_input_embeddings().weight.detach()
    head = random_head(config, embedding, runner.vocab_size, min(runner.max_length, HELD + 64))
    ids = _ids(contest, HELD + 1)
    hidden = _hold(runner, ids[:HELD], head.aux_layers).hidden
    takes = {
        "draft step": lambda: _draft_step(head, hidden, runner, ids[:HELD]),
        "plain step": _forward_take(runner, ids, 1),
    }
    turns = take_turns(takes, contest.settings.repeats, contest.watch, contest.tell)
    result = _ratio("h", "a draft step of a one-layer head over a plain step", turns, *takes, Goal(at_most=0.06))
    figures = {name: {"ms": _milliseconds(turns, name)} for name in takes}
    note = f"{DRAFT_VOCABULARY:,} tokens in its vocabulary at most, random weights, greedy draws"
    return [replace(result, figures=figures, notes=(note,))]


def _forward_take(runner: Runner, ids: list[int], n: int) -> Callable[[], float]:
    rows = torch.tensor(ids[HELD : HELD + n], device=runner.device)

    def steps() -> None:
        for _ in range(STEPS):
            runner.forward(rows, n)
            runner.rewind(HELD)

    timed = _timed(steps, runner.device)
    return lambda: timed() / STEPS


def _draft_step(head: Drafter, hidden: Tensor, runner: Runner, ids: list[int]) -> float:
    """Seconds of one more drafted token, drawn as a lane draws it."""
    prompt = torch.tensor(ids, device=runner.device)
    dice = Dice(Sampler(GREEDY, runner.vocab_size, runner.device, prompt), Rule.SHARED_NOISE, Fixed(DRAFTED))

    def propose(gamma: int) -> float:
        head.begin(prompt, 0, hidden, len(ids) + 2 * DRAFTED)
        dice.start(position=len(ids))
        return _timed(lambda: head.propose(gamma, dice), runner.device)()

    return (propose(DRAFTED) - propose(1)) / (DRAFTED - 1)


def _hold(runner: Runner, ids: list[int], aux_layers: tuple[int, ...] = ()) -> Output:
    """Put the runner after these ids, with room for the longest verification."""
    runner.begin(len(ids) + max(GAMMAS) + 1)
    return prefill(runner, torch.tensor(ids, device=runner.device), aux_layers)


# --- Rounds ----------------------------------------------------------------------------------------------------------


def outside(contest: Contest) -> list[Result]:
    """Row o: the share of a round outside the models' forwards, greedy and sampled."""
    return [replace(result, row="o", goal=Goal(at_most=0.04)) for result in outside_the_forwards(contest)]


def nothing_to_copy(contest: Contest) -> list[Result]:
    """Row n: the n-gram lane over the baseline where the answer copies nothing."""
    result = lane_over_baseline(contest, contest.ngram, contest.prompts("other"))
    what = "the n-gram lane over the baseline, nothing to copy"
    return [replace(result, row="n", what=what, goal=Goal(at_least=0.97))]


# --- A long prompt ---------------------------------------------------------------------------------------------------


def long_prompt(contest: Contest) -> list[Result]:
    """Row p: the time and the memory of a long prompt's prefill over transformers'."""
    runner, model = contest.ngram.target, contest.reference
    ids = _ids(contest, min(LONG, runner.max_length - 1))
    if contest.settings.quick:
        ids = ids[:HELD]
    prompt = torch.tensor(ids, device=runner.device)

    def ours() -> None:
        runner.begin(len(ids))
        prefill(runner, prompt)

    takes = {"ours": ours, "generate": lambda: run_generate(model, ids, 1)}
    timed = {name: _timed(act, runner.device) for name, act in takes.items()}
    repeats = min(contest.settings.repeats, LONG_REPEATS)
    turns = take_turns(timed, repeats, contest.watch, contest.tell)
    memory = {name: peak_memory(act, runner.device) / BYTES for name, act in takes.items()}
    figures = {name: {"s": _milliseconds(turns, name) / 1000, "MiB more at its peak": memory[name]} for name in takes}
    result = _ratio("p", f"prefill of {len(ids):,} tokens over transformers'", turns, *takes, Goal(at_most=1.1))
    return [replace(result, figures=figures)]


def peak_memory(act: Callable[[], object], device: torch.device) -> int:
    """Bytes that it takes at its peak beyond what was held before: of the device, or else of the process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        act()
        return torch.cuda.max_memory_allocated(device) - before
    give_back_freed_memory()
    process, over = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.005):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        act()
    finally:
        over.set()
        watcher.join()
    return max(peak, process.memory_info().rss) - before


STEP_ROWS: dict[str, Callable[[Contest], list[Result]]] = {
    "g": plain_step,
    "v": verification,
    "h": draft_step,
    "o": outside,
    "n": nothing_to_copy,
    "p": long_prompt,
}


# --- Common ----------------------------------------------------------------------------------------------------------


def _ids(contest: Contest, n: int) -> list[int]:
    """Any ids: a forward costs the same whatever they say."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(contest.ngram.target.vocab_size, (n,), generator=generator).tolist()


def _asked(contest: Contest) -> Precision:
    return contest.ngram.target_precision


def _theirs(contest: Contest) -> Precision:
    """The precision of transformers' side: fp32 where our fp16 weights are multiplied in fp32."""
    return next(precision for precision, dtype in DTYPES.items() if dtype == contest.reference.dtype)


def _precisions(contest: Contest) -> list[Precision]:
    """The one that is asked for, then other float ones."""
    asked = _asked(contest)
    return [asked, *(p for p in (Precision.FP32, Precision.BF16) if p is not asked)]


def _timed(act: Callable[[], object], device: torch.device) -> Callable[[], float]:
    """The act, giving the seconds that it took."""

    def take() -> float:
        settle(device)
        begun = time.perf_counter()
        act()
        settle(device)
        return time.perf_counter() - begun

    return take


def _milliseconds(turns: list[Turn], name: str) -> float:
    return 1000 * median(turn.seconds[name] for turn in turns)


def _ratio(row: str, what: str, turns: list[Turn], over: str, under: str, goal: Goal) -> Result:
    values = tuple(turn.seconds[over] / turn.seconds[under] for turn in turns)
    return Result(row, what, values, goal, busy=busy_of(turns))
