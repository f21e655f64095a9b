"""How is a race asked for by options? Alike for the terminal, and for what the page's Settings begin with."""

from __future__ import annotations

import argparse
from dataclasses import replace

from specdemo.decoding.steps import DraftLength, Rule
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.option_names import dashed, named
from specdemo.race import Mode, Request
from specdemo.sampling_options import add_sampling_options, sampling_params

NEW_TOKENS = 128
PAGE_NEW_TOKENS = 192
DRAFT_LENGTH = DraftLength.MARGINAL_GAIN  # what writes fastest with the default drafter (README, Benchmark)


def add_race_options(parser: argparse.ArgumentParser, new_tokens: int = NEW_TOKENS) -> argparse._ArgumentGroup:
    """The options that `race_request` reads, and `--thinking`. new_tokens: as usual."""
    parser.add_argument(
        "--thinking", choices=("on", "off"), help="where the chat template knows of it (the template's own)"
    )
    sampling = add_sampling_options(parser)
    sampling.add_argument("--draft-temperature", type=float, help="the drafter's own (the target's)")
    race = parser.add_argument_group("the race")
    race.add_argument(
        "--gamma", type=int, default=5, help=f"draft length, 0 to {MAX_GAMMA}; 0 is plain decoding (%(default)s)"
    )
    race.add_argument(
        "--draft-length",
        choices=named(DraftLength),
        default=dashed(DRAFT_LENGTH),
        metavar="NAME",
        help=f"how long each draft is, --gamma being the most: {', '.join(named(DraftLength))} (%(default)s)",
    )
    race.add_argument(
        "--rule", choices=named(Rule), default=dashed(Rule.SHARED_NOISE), help="how a draft is judged (%(default)s)"
    )
    race.add_argument(
        "--mode", choices=named(Mode), default=dashed(Mode.RACED), help="how two lanes share a device (%(default)s)"
    )
    race.add_argument("--max-new-tokens", type=int, default=new_tokens, help="(%(default)s)")
    race.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end at this text; may be repeated")
    return race


def race_request(args: argparse.Namespace) -> Request:
    """What the options ask for, the prompt's ids still missing."""
    params = replace(sampling_params(args), draft_temperature=args.draft_temperature)
    return Request(
        prompt_ids=(),
        params=params,
        rule=named(Rule)[args.rule],
        gamma=args.gamma,
        draft_length=named(DraftLength)[args.draft_length],
        max_new_tokens=args.max_new_tokens,
        stop_strings=tuple(args.stop),
        mode=named(Mode)[args.mode],
    )
