"""`python -m specdemo bench`: its options, and the run from the first look around to the saved table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from specdemo.bench import report
from specdemo.bench.contest import Contest, Settings
from specdemo.bench.measure import THRESHOLD
from specdemo.bench.page_client import PageFailed
from specdemo.bench.rows import ROWS
from specdemo.bench.steps import STEP_ROWS
from specdemo.environment import Watch, busy_processes, environment
from specdemo.models.errors import ModelUnavailable, PairRefused

VOID, REFUSED = 1, 2
QUICK = {"new_tokens": 12, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`."""
    defaults = Settings()
    parser.add_argument(
        "--steps", action="store_true", help="what a plain step, a verification and a draft step cost, instead"
    )
    rows = f"a part of {','.join(ROWS)}, or with --steps of {','.join(STEP_ROWS)} (all)"
    parser.add_argument("--only", default="", metavar="ROWS", help=rows)
    parser.add_argument("--repeats", type=int, help=f"interleaved repeats ({defaults.repeats})")
    parser.add_argument("--new-tokens", type=int, help=f"tokens each side writes ({defaults.new_tokens})")
    parser.add_argument("--gamma", type=int, default=defaults.gamma, help="draft length (%(default)s)")
    parser.add_argument("--target", default=defaults.target, metavar="PATH", help="a folder or hub id (%(default)s)")
    parser.add_argument("--precision", default=defaults.precision, help="of both sides (%(default)s)")
    parser.add_argument("--device", help="as torch names it (cuda where there is one, else cpu)")
    parser.add_argument(
        "--draft-layers",
        type=int,
        default=defaults.draft_layers,
        help="the target's own, in row c's draft (%(default)s)",
    )
    parser.add_argument("--prompts", type=Path, default=defaults.prompts, metavar="FILE", help="other prompts as JSON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result, every repeat of it")
    parser.add_argument("--strict", action="store_true", help="refuse to start beside a busy process")
    parser.add_argument("--quick", action="store_true", help="a tiny budget: does it run, not how fast")


def main(args: argparse.Namespace) -> int:
    """Measure and show; 0 when every result is sound, 1 when one is void, 2 when nothing could be measured."""
    try:
        known = STEP_ROWS if args.steps else ROWS
        settings, rows = _settings(args), _rows(args.only, known)
        busy = [str(process) for process in busy_processes(THRESHOLD, seconds=2.0)]
        for name in busy:
            print(f"Busy: {name}. Figures taken beside it are marked noisy.", file=sys.stderr)
        if busy and args.strict:
            raise Refused("Not started: stop what is busy, or leave out --strict.")
        with tempfile.TemporaryDirectory(prefix="specdemo-bench-") as scratch:
            contest = Contest(settings, Path(scratch), Watch(), _tell)
            results = []
            for row in rows:
                _tell(f"row {row}")
                results += known[row](contest)
    except (Refused, ModelUnavailable, PairRefused, PageFailed) as error:
        print(error, file=sys.stderr)
        return REFUSED
    facts, machine = contest.ngram.facts, environment(str(contest.ngram.target.device))
    print(report.table(results, settings, facts, machine))
    if args.json:
        report.save(args.json, report.to_json(results, settings, facts, machine))
    return VOID if any(result.faults for result in results) else 0


class Refused(ValueError):
    """Nothing is measured; the message says why."""


def _settings(args: argparse.Namespace) -> Settings:
    settings = Settings(
        target=args.target,
        precision=args.precision,
        device=args.device,
        gamma=args.gamma,
        draft_layers=args.draft_layers,
        quick=args.quick,
        prompts=args.prompts,
    )
    if args.quick:
        settings = replace(settings, **QUICK)
    given = {name: getattr(args, name) for name in QUICK if getattr(args, name) is not None}
    settings = replace(settings, **given)
    if settings.repeats < 1 or settings.new_tokens < 2 or not 1 <= settings.gamma <= 16:
        raise Refused("The benchmark needs at least 1 repeat, 2 new tokens, and a draft length of 1 to 16.")
    if args.json and not args.json.resolve().parent.is_dir():
        raise Refused(f"There is no folder {args.json.resolve().parent} to write {args.json.name} into.")
    return settings


def _rows(only: str, known: Mapping[str, object]) -> list[str]:
    rows = [row.strip() for row in only.split(",") if row.strip()] or list(known)
    unknown = [row for row in rows if row not in known]
    if unknown:
        raise Refused(f"There is no row {unknown[0]!r}: choose from {', '.join(known)}.")
    return rows


def _tell(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
