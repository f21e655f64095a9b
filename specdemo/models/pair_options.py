"""What may be asked for in a pair, and by which options? For the terminal, the page and the benchmark alike.

Imports neither torch nor transformers: `--help` and a mistyped option do not wait for them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from specdemo.models.hub_token import HubToken
from specdemo.models.presets import PRESETS

EMBEDDED = "embedded"  # as target and as drafter: what comes with this program
NGRAM = "ngram"
SELF = "self"  # as drafter: the target's own weights, quantised
COMBINED = f"{NGRAM}+"  # before a drafter's name: lookup where the context has a good match, else that drafter
AUTO = "auto"  # a target's precision: measured at the start
TARGET_PRECISIONS = (AUTO, "fp32", "bf16", "fp16", "int8", "int4")
DRAFT_PRECISIONS = TARGET_PRECISIONS[1:]
USUAL_TOKENS, USUAL_GAMMA = 1024, 5  # of a race, where memory is foreseen before one is asked for
MAX_GAMMA = 16  # the longest draft, which forwards of equal shapes leave room for

DEFAULT_DRAFTER = f"{COMBINED}{EMBEDDED}"  # of the embedded target; any other begins with lookup alone
SHIPPED_HEAD = Path(__file__).resolve().parents[2] / "assets" / "draft"


@dataclass(frozen=True, slots=True)
class PairSpec:
    """What is asked for. target: "embedded", a folder or a hub id.

    drafter: "ngram", "embedded" (the head that comes with this program), "self" (the target's own weights in int8 or
    int4), a folder or a hub id of a causal LM or of an EAGLE-3 head; or "ngram+" and one of these for lookup where the
    context has a good match, else the other.
    target_precision: "auto" measures what decodes fastest here. draft_precision: None takes the target's. device: as
    torch names it; None takes CUDA when there is one. double_quantisation: int4 also quantises its scales.
    equal_shapes: every forward of both lanes has as many rows as the longest verification, for the sake of equal bits.
    graphs: on a GPU forwards and draws are recorded as CUDA graphs and replayed.
    hub_token: a visitor's own. What it opened is for whoever gives the same one: pairs are held apart by their specs.
    """

    target: str = EMBEDDED
    drafter: str = NGRAM
    draft_precision: str | None = None
    target_precision: str = AUTO
    device: str | None = None
    double_quantisation: bool = False
    equal_shapes: bool = False
    graphs: bool = True
    hub_token: HubToken | None = field(default=None, repr=False)


def default_drafter(target: str) -> str:
    """What drafts for a target where nothing is asked for."""
    return DEFAULT_DRAFTER if target == EMBEDDED else NGRAM


def head_is_shipped() -> bool:
    """Whether this copy of the program holds the embedded target's head."""
    return (SHIPPED_HEAD / "config.json").is_file()


def usual_drafters(target: str) -> tuple[str, ...]:
    """Lookup, and the embedded target's head alone and with lookup, where this copy holds it."""
    heads = (EMBEDDED, f"{COMBINED}{EMBEDDED}") if target == EMBEDDED and head_is_shipped() else ()
    return (NGRAM, *heads)


def split_drafter(drafter: str) -> tuple[bool, str | None]:
    """Whether a drafter's name asks for lookup, and which model or head it asks for, if any."""
    if drafter == NGRAM:
        return True, None
    return drafter.startswith(COMBINED), drafter.removeprefix(COMBINED)


def add_pair_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The options that `pair_spec` reads."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--target", default=EMBEDDED, metavar="PATH", help="a model's folder or hub id, perhaps @revision (%(default)s)"
    )
    which.add_argument(
        "--preset",
        choices=PRESETS,
        metavar="NAME",
        help="a target with its draft by name; `specdemo doctor` lists them",
    )
    parser.add_argument(
        "--drafter",
        metavar="NAME",
        help=f"{NGRAM}; a folder or hub id of a model or an EAGLE-3 head; {EMBEDDED}, the head that comes with this "
        f"program; {SELF}, the target's own weights in int8 or int4; or {COMBINED}NAME: lookup where the context has a "
        f"good match, else NAME ({DEFAULT_DRAFTER})",
    )
    parser.add_argument(
        "--target-precision", choices=TARGET_PRECISIONS, default=AUTO, help="(auto: the fastest plain step here)"
    )
    parser.add_argument(
        "--draft-precision", choices=DRAFT_PRECISIONS, help="(the target's); int8 and int4 by bitsandbytes"
    )
    parser.add_argument(
        "--double-quantisation", action="store_true", help="int4 quantises its scales, too: a little smaller"
    )
    parser.add_argument("--device", help="as torch names it (cuda where there is one, else cpu)")
    parser.add_argument(
        "--equal-shapes", action="store_true", help="every forward with the same number of rows, for equal bits"
    )
    parser.add_argument(
        "--no-graphs", action="store_true", help="on a GPU: launch every kernel by itself instead of CUDA graphs"
    )


def pair_spec(args: argparse.Namespace) -> PairSpec:
    """What the options ask for."""
    preset = PRESETS[args.preset] if args.preset else None
    target = preset.target.repository if preset else args.target
    return PairSpec(
        target,
        args.drafter or (preset.draft.repository if preset else default_drafter(target)),
        args.draft_precision,
        args.target_precision,
        args.device,
        args.double_quantisation,
        args.equal_shapes,
        not args.no_graphs,
    )
