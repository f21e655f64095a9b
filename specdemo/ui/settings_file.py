"""How do Settings become options, and options what Settings begin with? Name by name, there and back.

The names are those of the options (`--help`), so that the file does for app.py and for `specdemo run`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from specdemo import config
from specdemo.models.pair_options import PairSpec
from specdemo.option_names import dashed
from specdemo.race_options import race_request
from specdemo.ui.controls import MODEL, NUMBERS, stop_strings
from specdemo.ui.engine import AS_TARGET

NAMED = ("draft_length", "mode", "rule")  # by the names that options give them
TEMPLATE = "template"  # thinking as the chat template has it


def begin_with(args: argparse.Namespace) -> dict[str, Any]:
    """What Settings begin with, but for the pair, which the desk has."""
    request = race_request(args)
    temperature = args.draft_temperature
    return {name: getattr(args, name) for name in NUMBERS} | {
        "draft_length": request.draft_length,
        "mode": request.mode,
        "rule": request.rule,
        "stop_strings": "\n".join(one.replace("\n", "\\n") for one in request.stop_strings),
        "draft_temperature": "" if temperature is None else f"{temperature:.12g}",
        "thinking": args.thinking or TEMPLATE,
    }


def file_of(values: Mapping[str, Any], spec: Any, *, public: bool = False) -> str:
    """Settings by name as a file. spec: the pair that the page began with; without a pair, its options are left out.

    public: what only the host has named, a folder perhaps, is left out, too.
    """
    typed = str(values["draft_temperature"] or "")
    options = _pair(values, PairSpec(target="") if public else spec) if isinstance(spec, PairSpec) else {}
    options |= {name.replace("_", "-"): _plain(values[name]) for name in NUMBERS}
    options |= {name.replace("_", "-"): dashed(values[name]) for name in NAMED}
    options["draft-temperature"] = _plain(_number(typed)) if typed else None
    options["stop"] = list(stop_strings(values["stop_strings"])) or None
    options["thinking"] = None if values["thinking"] == TEMPLATE else values["thinking"]
    return config.write(options)


def _pair(values: Mapping[str, Any], spec: PairSpec) -> dict[str, Any]:
    modelled = values["drafter"] == MODEL
    precision = values["draft_precision"]
    return {
        "target": str(values["target_model"] or "").strip() or spec.target or None,
        "drafter": str(values["draft_model"] or "").strip() or None if modelled else values["drafter"],
        "target-precision": values["target_precision"],
        "draft-precision": precision if modelled and precision != AS_TARGET else None,
        "device": spec.device,
        "double-quantisation": spec.double_quantisation or None,
        "equal-shapes": spec.equal_shapes or None,
        "no-graphs": None if spec.graphs else True,
    }


def _number(typed: str) -> Any:
    try:
        return float(typed)
    except ValueError:
        return typed  # refused where the file is read


def _plain(value: Any) -> Any:
    """A whole number without its point, as a slider sends it sometimes."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
