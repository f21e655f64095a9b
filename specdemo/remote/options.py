"""Which two servers are raced on? The options of the command and of the page alike; imports nothing heavy."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from specdemo.option_names import option
from specdemo.race import Lane
from specdemo.remote.address import address
from specdemo.remote.faults import RemoteFault
from specdemo.remote.settings import EXAMPLE, Settings, read_settings

LONGEST_TIMEOUT = 24 * 3600  # seconds
DRAFTS = ("gamma", "draft_length", "rule", "draft_temperature", "drafter", "draft_precision")  # of the speculative lane
LOADED = ("target", "preset", "target_precision", "double_quantisation", "device", "equal_shapes", "no_graphs")


@dataclass(frozen=True, slots=True)
class Servers:
    """Both addresses, as the person who starts the program gave them: nobody else names one.

    One of them may be None: that lane runs on this machine. model: its name on both; None: the only one that they
    serve. timeout: seconds that a server may be silent. allowed: others that a visitor of the page may choose.
    settings: further fields of a lane's requests.
    """

    baseline: str | None
    speculative: str | None
    model: str | None = None
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    allowed: tuple[str, ...] = ()
    settings: dict[Lane, Settings] = field(default_factory=dict)

    @property
    def here(self) -> Lane | None:
        """The lane that runs on this machine, if one does."""
        return Lane.BASELINE if self.baseline is None else Lane.SPECULATIVE if self.speculative is None else None

    def refuse_same(self) -> None:
        """Raises RemoteFault where both lanes would be asked the same of one server."""
        own, other = (self.settings.get(lane) for lane in Lane)
        if self.baseline == self.speculative and own == other:
            raise RemoteFault(
                f"Both lanes would ask the same of one server, {self.baseline}: name another one, or say with "
                "--baseline-settings or --speculative-settings what a lane's requests have that the other's do not."
            )


def add_server_options(parser: argparse._ArgumentGroup) -> None:
    """The options that `servers` reads."""
    parser.add_argument("--baseline-url", metavar="URL", help="the server without speculative decoding")
    parser.add_argument("--speculative-url", metavar="URL", help="the server with it")
    for lane in Lane:
        parser.add_argument(
            f"--{lane}-settings",
            metavar="JSON",
            help=f"further fields of the {lane} lane's requests, as in {EXAMPLE}; they are shown",
        )
    parser.add_argument("--model", metavar="NAME", help="as both servers call it (the only one that they serve)")
    parser.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the servers' key")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long a server may be silent (%(default)s)"
    )


def add_choice_option(parser: argparse._ArgumentGroup) -> None:
    """What only the page has."""
    parser.add_argument(
        "--allow-server",
        action="append",
        default=[],
        metavar="URL",
        help="another server that visitors may choose in Settings; it gets the key, too; may be repeated",
    )


def servers(args: argparse.Namespace) -> Servers | None:
    """What the options ask for; None where no server is named. Raises RemoteFault."""
    urls = [None if url is None else address(url) for url in (args.baseline_url, args.speculative_url)]
    settings = _settings(args, urls)
    allowed = tuple(map(address, getattr(args, "allow_server", ())))
    if urls == [None, None]:
        if allowed:
            raise RemoteFault("--allow-server names a choice beside servers that race: give --baseline-url, too.")
        return None
    if not 0 < args.timeout <= LONGEST_TIMEOUT:
        raise RemoteFault(f"The timeout must be more than 0 seconds, and {LONGEST_TIMEOUT:,} at most.")
    key = None
    if args.api_key_env is not None:
        key = os.environ.get(args.api_key_env, "").strip()
        if not key and not args.api_key_env.isidentifier():  # perhaps the key itself, which no sentence repeats
            raise RemoteFault(
                "--api-key-env takes the name of an environment variable: put the key in one, and give its name."
            )
        if not key or not key.isascii() or not key.isprintable():
            raise RemoteFault(f"The environment variable {args.api_key_env} holds no key: set it, and run again.")
    asked = Servers(*urls, args.model, key, args.timeout, allowed, settings)
    asked.refuse_same()
    return asked


def refuse_theirs(args: argparse.Namespace, asked: Servers, usual: Callable[[str], object]) -> None:
    """Raises RemoteFault where an option is given that is of no lane on this machine. usual: its value where it is not.

    A file of options may have them: one does for pages and runs of every kind.
    """
    given = [name for name in (*DRAFTS, *LOADED) if getattr(args, name, None) != usual(name)]
    if given and given[0] in DRAFTS and asked.here is not Lane.SPECULATIVE:
        raise RemoteFault(
            f"{option(given[0])}: how a server drafts is its own. Leave it out, and set it where the server is started."
        )
    if given and asked.here is None:
        raise RemoteFault(
            f"{option(given[0])} is of a lane on this machine, and both run on servers. Leave it out, and set it where "
            "the servers are started."
        )


def _settings(args: argparse.Namespace, urls: list[str | None]) -> dict[Lane, Settings]:
    """What each lane's requests have of their own."""
    found = {}
    for lane, url in zip(Lane, urls, strict=True):
        option, text = f"--{lane}-settings", getattr(args, f"{lane}_settings")
        if text is not None and url is None:
            raise RemoteFault(f"{option} goes to that lane's server: give --{lane}-url, too, or leave it out.")
        if text is not None and (settings := read_settings(option, text)):
            found[lane] = settings
    return found
