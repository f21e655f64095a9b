"""Which two servers are raced on? The options of the command and of the page alike; imports nothing heavy."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field

from specdemo.remote.faults import RemoteFault


@dataclass(frozen=True, slots=True)
class Servers:
    """Both addresses, as the person who starts the program gave them: nobody else names one.

    model: its name on both; None: the only one that they serve. timeout: seconds that a server may be silent.
    """

    baseline: str
    speculative: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0


def add_server_options(parser: argparse._ArgumentGroup, *, required: bool) -> None:
    """The options that `servers` reads."""
    parser.add_argument(
        "--baseline-url", required=required, metavar="URL", help="the server without speculative decoding"
    )
    parser.add_argument("--speculative-url", required=required, metavar="URL", help="the server with it")
    parser.add_argument("--model", metavar="NAME", help="as both servers call it (the only one that they serve)")
    parser.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the servers' key")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long a server may be silent (%(default)s)"
    )


def servers(args: argparse.Namespace) -> Servers | None:
    """What the options ask for; None where no server is named. Raises RemoteFault."""
    urls = (args.baseline_url, args.speculative_url)
    if urls == (None, None):
        return None
    if None in urls:
        raise RemoteFault("Two servers race: name one with --baseline-url and one with --speculative-url.")
    if not args.timeout > 0:
        raise RemoteFault("The timeout must be more than 0 seconds.")
    key = None
    if args.api_key_env is not None:
        key = os.environ.get(args.api_key_env, "")
        if not key or not key.isascii() or not key.isprintable():
            raise RemoteFault(f"The environment variable {args.api_key_env} holds no key: set it, and run again.")
    return Servers(*urls, args.model, key, args.timeout)
