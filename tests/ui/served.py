"""A page over the scripted engine, served on a free port of the loopback for the clients of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from specdemo.ui.desk import Desk
from specdemo.ui.engine import Engine
from specdemo.ui.ledger import Ledger
from specdemo.ui.page import Page, launch_options
from specdemo.ui.visitors import OWN, Rules
from tests.ui.synthetic import Synthetic


@dataclass
class Served:
    """url: with a slash at its end."""

    url: str
    desk: Desk
    script: Synthetic
    page: Page


def run_apart(clients: Coroutine[None, None, None]) -> None:
    """Run to its end in a loop of its own: Playwright's, of browser tests before, may still run in this thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, clients).result()


NOTHING = Ledger()


@contextmanager
def served(
    script: Synthetic | None = None,
    rules: Rules = OWN,
    engine: Engine | None = None,
    ledger: Ledger = NOTHING,
    auth: Callable[[str, str], bool] | None = None,
) -> Iterator[Served]:
    """Launched, its pair loading; closed at the end. engine: another than the script's own. auth: who may come in."""
    script = script or Synthetic()
    desk = Desk(engine or script.engine(), ("ngram", "same"), rules)
    desk.ledger = ledger
    desk.open()
    page = Page(desk)
    _, url, _ = page.blocks.launch(
        auth=auth, prevent_thread_lock=True, quiet=True, **launch_options(rules, ledger.counts)
    )
    try:
        yield Served(url, desk, script, page)
    finally:
        script.go.set()
        page.blocks.close(verbose=False)
