"""`python -m specdemo bench`: its options, and the run from the first look around to the saved table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from specdemo.bench import gpu, report, task_report
from specdemo.bench.contest import KINDS, PROMPTS, Contest, Settings
from specdemo.bench.measure import THRESHOLD
from specdemo.bench.page_client import PageFailed
from specdemo.bench.peers import HOW, PEER_ROWS, PYTHON, FlashSpec, PeerFailed
from specdemo.bench.results import Result
from specdemo.bench.rows import ROWS
from specdemo.bench.steps import STEP_ROWS
from specdemo.bench.tasks import SAMPLINGS, TaskContest, TaskSettings
from specdemo.decoding.steps import DraftLength
from specdemo.environment import Watch, busy_processes, environment
from specdemo.exit_codes import REFUSED
from specdemo.lab.experiment import LabRefused
from specdemo.lab.prompt_files import read_prompts
from specdemo.lab.prompts import TASKS
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.loading import resolve_device
from specdemo.models.pair_options import COMBINED, EMBEDDED, MAX_GAMMA, NGRAM, usual_drafters
from specdemo.models.precision import DTYPES, Precision
from specdemo.option_names import dashed, named
from specdemo.race import RequestRefused
from specdemo.trace_files import Unwritable, refuse_unwritable, say_unwritten

VOID = 1  # the exit code where a result is not sound
QUICK = {"new_tokens": 12, "repeats": 2}
QUICK_TASKS = {"new_tokens": 12, "repeats": 1, "per_kind": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`."""
    rows, tasks = Settings(), TaskSettings()
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--steps", action="store_true", help="what a plain step, a verification and a draft step cost, instead"
    )
    instead.add_argument(
        "--tasks", action="store_true", help="what each drafter is worth on six kinds of prompts, instead"
    )
    instead.add_argument(
        "--gpu",
        action="store_true",
        help="what the engine reaches on a CUDA device: real shapes with random weights, simulated acceptance, instead",
    )
    instead.add_argument(
        "--peers",
        action="store_true",
        help="the same pair in FlashSpec and in transformers beside this program, instead",
    )
    parts = {"": ROWS, "with --steps ": STEP_ROWS, "with --peers ": PEER_ROWS}
    about = "a part, " + ", ".join(f"{when}of {','.join(rows)}" for when, rows in parts.items()) + " (all)"
    parser.add_argument(
        "--flashspec",
        type=Path,
        default=PYTHON,
        metavar="PYTHON",
        help=f"with --peers: of the environment that FlashSpec is in (%(default)s, of `{HOW}`)",
    )
    parser.add_argument("--only", default="", metavar="ROWS", help=about)
    parser.add_argument("--repeats", type=int, help=f"interleaved repeats ({rows.repeats}, of tasks {tasks.repeats})")
    parser.add_argument(
        "--new-tokens",
        type=int,
        help=f"tokens each side writes ({rows.new_tokens}, of tasks at most {tasks.new_tokens})",
    )
    parser.add_argument(
        "--gamma", default=str(rows.gamma), help="draft length; with --tasks also several, as in 3,5,7 (%(default)s)"
    )
    parser.add_argument("--target", default=rows.target, metavar="PATH", help="a folder or hub id (%(default)s)")
    parser.add_argument("--precision", default=rows.precision, help="of both sides (%(default)s)")
    parser.add_argument("--device", help="as torch names it (cuda where there is one, else cpu)")
    parser.add_argument(
        "--draft-layers",
        type=int,
        default=rows.draft_layers,
        help="the target's own, in row c's draft (%(default)s)",
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="other prompts as JSON; of tasks also as JSON lines (see docs/lab.md)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result, every repeat of it")
    parser.add_argument("--strict", action="store_true", help="refuse to start beside a busy process")
    parser.add_argument("--quick", action="store_true", help="a tiny budget: does it run, not how fast")
    _add_task_arguments(parser.add_argument_group("with --tasks"))


def _add_task_arguments(parser: argparse._ArgumentGroup) -> None:
    usual = f"{NGRAM}, and where this copy holds the target's head {EMBEDDED} and {COMBINED}{EMBEDDED}"
    parser.add_argument(
        "--drafter", action="append", metavar="NAME", help=f"as `run` names it; may be repeated ({usual})"
    )
    parser.add_argument(
        "--kinds", default="", metavar="KINDS", help="a part of the kinds of prompts, as in chat,code (all)"
    )
    parser.add_argument("--samplings", default="", metavar="NAMES", help=f"a part of {','.join(SAMPLINGS)} (all)")
    parser.add_argument("--per-kind", type=int, metavar="N", help="prompts of each kind (all)")
    names = ",".join(named(DraftLength))
    parser.add_argument(
        "--draft-length",
        default=dashed(DraftLength.FIXED),
        metavar="NAMES",
        help=f"policies, of {names} (%(default)s)",
    )


def main(args: argparse.Namespace) -> int:
    """Measure and show; 0 when every result is sound, 1 when one is void, 2 when nothing was measured or kept."""
    try:
        refuse_unwritable(args.json)
        measure = _gpu if args.gpu else _tasks if args.tasks else _peers if args.peers else _rows
        shown, kept, sound = measure(args)
    except REFUSALS as error:
        print(error, file=sys.stderr)
        return REFUSED
    print(shown)
    try:
        if args.json:
            report.save(args.json, kept)
    except OSError as error:
        say_unwritten("result", args.json, error)
        return REFUSED
    return 0 if sound else VOID


AnySettings = TypeVar("AnySettings", Settings, TaskSettings)
Row = Callable[[Contest], list[Result]]
Measured = tuple[str, dict[str, object], bool]
"""What is shown, what is kept, and whether all of it is sound."""


def _rows(args: argparse.Namespace) -> Measured:
    return _measured(args, STEP_ROWS if args.steps else ROWS)


def _peers(args: argparse.Namespace) -> Measured:
    with FlashSpec(args.flashspec) as peer:
        rows = {name: partial(row, peer) for name, row in PEER_ROWS.items()}
        return _measured(args, rows, lambda: peer.versions)


def _measured(
    args: argparse.Namespace, known: Mapping[str, Row], facts: Callable[[], dict[str, str]] = dict
) -> Measured:
    settings, rows = _settings(args), _part(args.only, known, "row")
    _look_around(args.strict)
    with tempfile.TemporaryDirectory(prefix="specdemo-bench-") as scratch:
        contest = Contest(settings, Path(scratch), Watch(), _tell)
        results = []
        for row in rows:
            _tell(f"row {row}")
            results += known[row](contest)
    about = (results, settings, contest.ngram.facts | facts(), environment(str(contest.ngram.target.device)))
    return report.table(*about), report.to_json(*about), not any(result.faults for result in results)


def _gpu(args: argparse.Namespace) -> Measured:
    device = resolve_device(args.device)
    if device.type != "cuda":
        raise Refused("There is no CUDA device here, and --gpu measures one: leave it out to measure what is here.")
    free = torch.cuda.mem_get_info(device)[0]
    if free < gpu.FREE:
        raise Refused(
            f"The larger pair takes {gpu.FREE >> 30} GiB, and {free / 2**30:.0f} GiB are free on {device}: free some, "
            "or name another device with --device."
        )
    half = Precision.BF16 if torch.cuda.is_bf16_supported(including_emulation=False) else Precision.FP16
    budget = {"new_tokens": gpu.NEW_TOKENS} if args.new_tokens is None and not args.quick else {}
    settings = replace(_settings(args), target="random weights", precision=str(half), device=str(device), **budget)
    _look_around(args.strict)
    plan = gpu.Plan(
        device, DTYPES[half], gamma=settings.gamma, new_tokens=settings.new_tokens, repeats=settings.repeats
    )
    results = gpu.measure(plan, Watch(), _tell)
    facts = {"pairs": ", ".join(shapes.name for shapes in plan.pairs), "weights": f"random, {half}"}
    about = (results, settings, facts, environment(str(device)))
    return report.table(*about), report.to_json(*about), not any(result.faults for result in results)


def _tasks(args: argparse.Namespace) -> Measured:
    settings = _task_settings(args)
    _look_around(args.strict)
    if len(settings.drafters) == 1 and not args.drafter and settings.target == EMBEDDED:
        _tell(f"this copy holds no head for the embedded target, so only {NGRAM} is measured")
    contest = TaskContest.load(settings, Watch(), _tell)
    cells = contest.measure()
    facts = {name: pair.facts for name, pair in contest.pairs.items()}
    machine = environment(facts[settings.drafters[0]]["device"])
    about = (cells, settings, facts, machine)
    return task_report.table(*about), task_report.to_json(*about), not any(cell.faults for cell in cells)


def _look_around(strict: bool) -> None:
    """Name who is busy; refuse beside them where that was asked for."""
    busy = [str(process) for process in busy_processes(THRESHOLD, seconds=2.0)]
    for name in busy:
        print(f"Busy: {name}. Figures taken beside it are marked noisy.", file=sys.stderr)
    if busy and strict:
        raise Refused("Not started: stop what is busy, or leave out --strict.")


class Refused(ValueError):
    """Nothing is measured; the message says why."""


REFUSALS = (
    Refused,
    LabRefused,
    Unwritable,
    RequestRefused,
    ModelUnavailable,
    PairRefused,
    PageFailed,
    PeerFailed,
)


def _settings(args: argparse.Namespace) -> Settings:
    gamma, *more = _gammas(args.gamma)
    if more:
        raise Refused("Several draft lengths can be compared with --tasks only.")
    prompts = args.prompts or PROMPTS
    known = _kinds(prompts)
    if missing := [kind for kind in KINDS if kind not in known]:
        raise Refused(f"{prompts} has no prompts of the kind {missing[0]!r}, and needs {' and '.join(KINDS)}.")
    settings = Settings(
        target=args.target,
        precision=args.precision,
        device=args.device,
        gamma=gamma,
        draft_layers=args.draft_layers,
        quick=args.quick,
        prompts=prompts,
    )
    return _budget(args, settings, QUICK)


def _task_settings(args: argparse.Namespace) -> TaskSettings:
    prompts = args.prompts or TASKS
    policies = named(DraftLength)
    settings = TaskSettings(
        target=args.target,
        precision=args.precision,
        device=args.device,
        drafters=tuple(dict.fromkeys(args.drafter or usual_drafters(args.target))),
        kinds=tuple(_part(args.kinds, _kinds(prompts), "kind")),
        samplings=tuple(_part(args.samplings, SAMPLINGS, "sampling")),
        gammas=tuple(_gammas(args.gamma)),
        draft_lengths=tuple(policies[name] for name in _part(args.draft_length, policies, "policy")),
        per_kind=args.per_kind,
        quick=args.quick,
        prompts=prompts,
    )
    settings = _budget(args, settings, QUICK_TASKS)
    if settings.per_kind is not None and settings.per_kind < 1:
        raise Refused("The benchmark needs at least 1 prompt of a kind.")
    return settings


def _budget(args: argparse.Namespace, settings: AnySettings, quick: Mapping[str, int]) -> AnySettings:
    """The settings with what was asked for, or else what --quick makes of it."""
    if args.quick:
        settings = replace(settings, **quick)
    given = {name: getattr(args, name) for name in quick if getattr(args, name) is not None}
    settings = replace(settings, **given)
    if settings.repeats < 1 or settings.new_tokens < 2:
        raise Refused("The benchmark needs at least 1 repeat and 2 new tokens.")
    return settings


def _kinds(prompts: Path) -> list[str]:
    """The kinds of prompts in a file."""
    return list(dict.fromkeys(prompt.kind for prompt in read_prompts(prompts)))


def _gammas(text: str) -> list[int]:
    """Draft lengths between commas."""
    try:
        gammas = [int(part) for part in text.split(",")]
    except ValueError:
        gammas = []
    if not gammas or not all(1 <= gamma <= MAX_GAMMA for gamma in gammas):
        raise Refused(f"A draft length is a whole number from 1 to {MAX_GAMMA}, not {text!r}.")
    return list(dict.fromkeys(gammas))


def _part(asked: str, known: Collection[str], what: str) -> list[str]:
    """The names between commas, or all that are known."""
    names = [name.strip() for name in asked.split(",") if name.strip()] or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Refused(f"There is no {what} {unknown[0]!r}: choose from {', '.join(known)}.")
    return list(dict.fromkeys(names))


def _tell(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
