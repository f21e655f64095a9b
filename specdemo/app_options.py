"""Which options has app.py? All of them, in one parser that a file of options is checked against, too."""

from __future__ import annotations

import argparse

from specdemo.config import add_config_option
from specdemo.models.pair_options import add_pair_options
from specdemo.race_options import PAGE_NEW_TOKENS, add_race_options
from specdemo.remote.options import add_choice_option, add_server_options
from specdemo.ui.ledger import add_ledger_options
from specdemo.ui.visitors import add_rule_options

RUN_ALONE = ("example", "json")  # what only `specdemo run` has


def app_parser() -> argparse.ArgumentParser:
    """The options of app.py; those of a race are what Settings begin with."""
    parser = argparse.ArgumentParser(description="Plain and speculative decoding, raced side by side.")
    add_pair_options(parser)
    add_race_options(parser, PAGE_NEW_TOKENS)
    add_rule_options(parser.add_argument_group("visitors"))
    lanes = parser.add_argument_group("lanes on vLLM servers; where one is named, the other lane runs here")
    add_server_options(lanes)
    add_choice_option(lanes)
    add_ledger_options(parser.add_argument_group("what is written down of runs"))
    parser.add_argument("--host", help="address to listen on; 0.0.0.0 lets others in (127.0.0.1, on a Space 0.0.0.0)")
    parser.add_argument("--port", type=_port, help="(the first free one from 7860)")
    parser.add_argument("--replay-only", action="store_true", help="no model: show the recorded runs of assets/runs")
    parser.add_argument("--auth-env", metavar="VAR", help="ask visitors for the name:password in this variable")
    add_config_option(parser)
    return parser


def _port(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError("must be a whole number between 1 and 65535")
    return int(text)
