"""Builds the page and launches it: `python app.py` on a person's machine, and what a Space runs, unchanged."""

from __future__ import annotations

import hmac
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from specdemo.app_options import RUN_ALONE, app_parser
from specdemo.config import ConfigRefused, configure
from specdemo.models.pair_options import PairSpec, pair_spec
from specdemo.race import RequestRefused, check_settings
from specdemo.race_options import race_request
from specdemo.remote.faults import RemoteFault
from specdemo.remote.options import Servers, refuse_theirs, servers
from specdemo.trace_files import Unwritable
from specdemo.ui.ledger import Ledger
from specdemo.ui.visitors import Rules, rules

if TYPE_CHECKING:
    from gradio import Blocks

    from specdemo.ui.desk import Desk
    from specdemo.ui.zero_engine import Lender

LEAVE_SECONDS = 2.0  # after SIGTERM, for what still runs; who sent it kills after some ten
TERMINATED = 128 + signal.SIGTERM


def leave_on_sigterm() -> None:
    """End within seconds, with what was logged and printed on its way, whatever runs: so a container is stopped."""

    def at_once() -> None:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(TERMINATED)

    def leave(number: int, frame: object) -> None:
        timer = threading.Timer(LEAVE_SECONDS, at_once)
        timer.daemon = True
        timer.start()
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, leave)


def stay(page: Blocks) -> None:
    """Until the program is ended; then runs are stopped, and stand in the log as that."""
    from specdemo.ui.gone import dismiss

    try:
        page.block_thread()
    finally:
        dismiss(LEAVE_SECONDS / 2)


def doorkeeper(variable: str | None) -> Callable[[str, str], bool] | None:
    """Who may come in: whoever knows the name and the password in this environment variable, written name:password.

    The variable is taken out of the environment, which other processes inherit. Exits with a sentence where it is not
    set so.
    """
    if variable is None:
        return None
    name, colon, password = os.environ.pop(variable, "").partition(":")
    if not (name and colon and password):
        sys.exit(f"The environment variable {variable} does not hold a name and a password, written name:password.")

    def knows(who: str, what: str) -> bool:
        both = [hmac.compare_digest(said.encode(), known.encode()) for said, known in ((who, name), (what, password))]
        return all(both)

    return knows


def check_address(host: str, port: int | None) -> None:
    """Exits with a sentence where no page can be served. port: None where any that is free will do."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a page that has just ended is not in the way
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        where = f"{host}, port {port}" if port else host
        reason = getattr(error, "strerror", None) or error
        sys.exit(f"No page can be served at {where}: {reason}. Name another with --host or --port.")


def _races(spec: PairSpec, rules: Rules) -> tuple[object, ...]:
    """The desk that will load this pair, and what Settings begin with."""
    from specdemo.ui.desk import Desk
    from specdemo.ui.own_engine import real_engine

    return _offered(Desk(real_engine(), spec, rules))


def _lent(gpu: Lender, spec: PairSpec, rules: Rules) -> tuple[object, ...]:
    """The desk whose races run on a GPU that is lent for each; the weights are placed now, in this thread."""
    from specdemo.models.errors import ModelUnavailable, PairRefused
    from specdemo.ui.desk import Desk
    from specdemo.ui.zero_engine import zero_engine, zero_spec

    try:
        spec = zero_spec(spec)
        engine = zero_engine(gpu, spec, rules.models, lambda fraction, message: fraction or print(message, flush=True))
    except (ModelUnavailable, PairRefused) as refused:
        sys.exit(str(refused))
    return _offered(Desk(engine, spec, replace(rules, lab_rows=0)))  # an experiment would want the GPU for minutes


def _offered(desk: Desk) -> tuple[object, ...]:
    """The desk, and what Settings begin with over its pair."""
    from specdemo.ui.engine import AS_TARGET

    spec = desk.spec
    return desk, spec.drafter, spec.draft_precision or AS_TARGET, spec.target_precision, spec.target


def _servers(asked: Servers, spec: PairSpec, rules: Rules) -> tuple[object, ...]:
    """The desk of which both lanes are on servers, or one is, and the other one is of this pair."""
    from specdemo.ui.desk import Desk
    from specdemo.ui.remote_engine import MixedSpec, mixed_engine, remote_engine

    if asked.here is None:
        return (Desk(remote_engine(), asked, rules),)
    desk, *begin_with = _races(spec, rules)
    return Desk(mixed_engine(asked.here, desk.engine), MixedSpec(spec, asked), rules), *begin_with


def _replays() -> tuple[object, ...]:
    """The desk that has no model."""
    from specdemo.ui.replay import ClosedDesk

    return (ClosedDesk(),)


def main() -> None:
    """Parse the options, serve the page, and load the pair meanwhile."""
    parser = app_parser()
    try:
        configure(parser, sys.argv[1:], others=lambda: RUN_ALONE)
        args = parser.parse_args()
        check_settings(race_request(args))
    except (ConfigRefused, RequestRefused) as refused:
        sys.exit(str(refused))
    leave_on_sigterm()
    auth = doorkeeper(args.auth_env)
    try:
        remote = servers(args)
        if remote is not None:
            refuse_theirs(args, remote, parser.get_default)
        ledger = Ledger.asked(args, lambda: len(desk.line))
    except (RemoteFault, Unwritable) as fault:
        sys.exit(str(fault))
    host = args.host or ("0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1")
    check_address(host, args.port)
    print("Starting; the address of the page follows in some seconds.", flush=True)

    from gradio.utils import get_space

    from specdemo.ui import settings_file  # gradio takes seconds: `--help` does not wait for it
    from specdemo.ui.controls import SettingRefused
    from specdemo.ui.login import LoginRefused, check_login
    from specdemo.ui.page import build_page, launch_options
    from specdemo.ui.spared import spare_collections
    from specdemo.ui.text import DEFAULT, tell
    from specdemo.ui.zero_engine import lender

    asked = rules(args)
    if asked.login and not args.replay_only:
        try:
            check_login(host, get_space)
        except LoginRefused as refused:
            sys.exit(str(refused))
    if args.replay_only:
        desk, *begin_with = _replays()
    elif remote:
        desk, *begin_with = _servers(remote, pair_spec(args), asked)
    else:
        gpu = lender()
        desk, *begin_with = _lent(gpu, pair_spec(args), asked) if gpu else _races(pair_spec(args), asked)
    desk.ledger = ledger
    try:
        page = build_page(desk, *begin_with, settings=settings_file.begin_with(args))
    except SettingRefused as refused:
        sys.exit(tell(DEFAULT, (refused.key, refused.params)))
    options = launch_options(asked, ledger.counts)
    page.launch(server_name=host, server_port=args.port, auth=auth, prevent_thread_lock=True, **options)
    spare_collections()
    desk.open()  # not before the page stands: loading begins with imports that would hold it up
    stay(page)


if __name__ == "__main__":
    main()
