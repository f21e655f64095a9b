"""A real Chromium over the real page, and over a scripted engine unless a test asks for the real one.

Where Chromium is missing these tests are skipped with the way to get it; under CI that is a failure.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from specdemo.models.pair_options import NGRAM, PairSpec
from specdemo.ui.desk import Desk, Loaded
from specdemo.ui.engine import Engine
from specdemo.ui.page import Page as BuiltPage
from specdemo.ui.page import launch_options
from specdemo.ui.replay import ClosedDesk
from tests.ui.synthetic import Synthetic

CHROMIUM = "/usr/bin/chromium"
SWITCHES = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOW_TO_GET_IT = "Chromium is missing: install it with `apt-get install chromium` (as root), then run the tests again."
PATIENCE = 90_000  # milliseconds until something expected counts as missing; the machine may be busy

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    path = CHROMIUM if os.path.exists(CHROMIUM) else shutil.which("chromium")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(HOW_TO_GET_IT)
        pytest.skip(HOW_TO_GET_IT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield browser
        browser.close()


@dataclass
class Demo:
    """A page that is served. script: the scripted engine behind it, which a test may bend. built: its server side."""

    url: str
    desk: Desk
    script: Synthetic
    built: BuiltPage

    def wait_for_stop(self, seconds: float) -> bool:
        """Until a press of Stop has reached the run that is going; whether it did in time."""
        (worker,) = self.built._workers.values()
        return worker.stop.wait(seconds)


def free_port() -> int:
    """One that no other worker takes: Gradio's own search begins at the same port in all of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def serve(engine: Engine, spec: object, script: Synthetic) -> Iterator[Demo]:
    """Launch the page on a free port, its pair loading."""
    desk = Desk(engine, spec)
    desk.open()
    yield from serve_desk(desk, script, spec.drafter if isinstance(spec, PairSpec) else NGRAM)


def serve_desk(desk: Desk | ClosedDesk, script: Synthetic, drafter: str = NGRAM) -> Iterator[Demo]:
    """Launch the page over a desk; drafter: what Settings begin with."""
    built = BuiltPage(desk, drafter)
    _, url, _ = built.blocks.launch(server_port=free_port(), prevent_thread_lock=True, quiet=True, **launch_options())
    yield Demo(url, desk, script, built)
    built.blocks.close(verbose=False)


@pytest.fixture(scope="session")
def shared_demo() -> Iterator[Demo]:
    """One served page for all tests over the scripted engine: launching takes a second."""
    script = Synthetic()
    yield from serve(script.engine(), ("ngram", "same"), script)


@pytest.fixture
def demo(shared_demo: Demo) -> Iterator[Demo]:
    """The served page, its script as new."""
    fresh = Synthetic(words=shared_demo.script.words)
    vars(shared_demo.script).update(vars(fresh))
    yield shared_demo
    shared_demo.script.go.set()
    assert shared_demo.desk.watch(-1, 0).state is Loaded.READY


@pytest.fixture
def served() -> Iterator[Callable[..., Demo]]:
    """served(engine, spec, script) -> a page served for one test."""
    with ExitStack() as closing:
        yield lambda *made_of: closing.enter_context(contextmanager(serve)(*made_of))


@pytest.fixture
def open_page(chromium: Browser, served: object) -> Iterator[Callable[..., Page]]:
    """
    open_page(url, **context) -> a page on which the demo stands. A script error on it fails the test.

    Needs `served` so that pages close before their servers: an open page calls a server that stops an error.
    """
    contexts, errors = [], []

    def opened(url: str, **options: object) -> Page:
        context = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, "locale": "en-US", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(url)
        page.wait_for_selector(".sd-chip", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def page(demo: Demo, open_page: Callable[..., Page]) -> Page:
    """The demo in an English browser, its pair loaded."""
    page = open_page(demo.url)
    page.wait_for_selector(".sd-pair[data-state=ready]")
    return page


def ask(page: Page, prompt: str) -> None:
    """Type a prompt and press Run."""
    page.fill("#sd-prompt textarea", prompt)
    page.click("#sd-run")


def wait_for_state(page: Page, *states: str) -> None:
    """Until the scoreboard has come to one of these states."""
    page.wait_for_function("states => states.includes(document.querySelector('.sd-score').dataset.state)", arg=states)


@contextmanager
def another_run(page: Page) -> Iterator[None]:
    """What is pressed here begins a run, which comes to its end."""
    before = page.locator(".sd-score").get_attribute("data-run")
    yield
    page.wait_for_function("before => document.querySelector('.sd-score').dataset.run !== before", arg=before)
    wait_for_state(page, "done", "refused")


def run(page: Page, prompt: str = "Tell me about lists.") -> None:
    """A run, to its end."""
    with another_run(page):
        ask(page, prompt)
