"""Run, Stop, a second run, a closed tab, loading: the model works when it should, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, ask, run, wait_for_state
from tests.ui.synthetic import Synthetic

pytestmark = pytest.mark.browser

SECONDS = 10


def test_stop_ends_the_model_within_a_step_and_the_next_run_works(demo: Demo, page: Page) -> None:
    demo.script.hold_at = 20
    ask(page, "Go")
    assert demo.script.held.wait(SECONDS)
    page.click("#sd-stop")
    assert demo.wait_for_stop(SECONDS)
    demo.script.go.set()  # the step under way ends now
    assert demo.script.closed.wait(SECONDS)
    assert len(demo.script.steps) <= 21
    wait_for_state(page, "stopped")
    expect(page.locator("[data-fig=more]")).to_contain_text("Stopped at")
    expect(page.locator("#sd-run")).to_be_enabled()
    demo.script.hold_at = None
    run(page)
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")


def test_a_closed_tab_ends_the_model(demo: Demo, page: Page) -> None:
    demo.script.pace = 1.0
    ask(page, "Go")
    wait_for_state(page, "running")
    page.close()
    assert demo.script.closed.wait(SECONDS)
    assert not any(one.step.stop for one in demo.script.steps), "it ran to its end instead"


def test_a_second_visitor_waits_with_a_sentence_and_then_runs(
    demo: Demo, page: Page, open_page: Callable[..., Page]
) -> None:
    demo.script.hold_at = 20
    ask(page, "Go")
    assert demo.script.held.wait(SECONDS)
    other = open_page(demo.url)
    ask(other, "Me too")
    expect(other.locator("[data-fig=verdict]")).to_contain_text("another run is using the device")
    demo.script.hold_at = None
    demo.script.go.set()
    wait_for_state(other, "done")
    wait_for_state(page, "done")


def test_a_waiting_run_can_be_stopped(demo: Demo, page: Page, open_page: Callable[..., Page]) -> None:
    demo.script.hold_at = 20
    ask(page, "Go")
    assert demo.script.held.wait(SECONDS)
    other = open_page(demo.url)
    ask(other, "Me too")
    wait_for_state(other, "waiting")
    other.click("#sd-stop")
    wait_for_state(other, "stopped")
    demo.script.go.set()
    wait_for_state(page, "done")


def test_enter_while_a_run_is_going_says_so(demo: Demo, page: Page) -> None:
    demo.script.hold_at = 20
    ask(page, "Go")
    assert demo.script.held.wait(SECONDS)
    wait_for_state(page, "running")
    page.press("#sd-prompt textarea", "Enter")
    expect(page.locator(".sd-busy")).to_be_visible()
    demo.script.go.set()
    wait_for_state(page, "done")


def test_a_run_that_fails_is_told_and_the_next_one_works(demo: Demo, page: Page) -> None:
    demo.script.fails_at = 30
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_have_text(
        "The run failed: The scripted device was unplugged. Plug it in."
    )
    demo.script.fails_at = None
    run(page)
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")


def test_the_page_stands_before_the_model_and_a_run_starts_when_it_is_ready(
    served: Callable[..., Demo], open_page: Callable[..., Page]
) -> None:
    script = Synthetic()
    script.loading.clear()
    demo = served(script.engine(), ("ngram", "same"), script)
    page = open_page(demo.url)
    expect(page.locator(".sd-pair")).to_contain_text("Downloading the scripted model, 37 of 93 MB.")
    ask(page, "Go")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Loading:")
    script.loading.set()
    wait_for_state(page, "done")
    expect(page.locator(".sd-pair")).to_contain_text("Scripted model")


def test_a_failed_load_says_what_to_do_and_can_be_tried_again(
    served: Callable[..., Demo], open_page: Callable[..., Page]
) -> None:
    script = Synthetic(load_error="The registry cannot be reached. Check the network, then try again.")
    demo = served(script.engine(), ("ngram", "same"), script)
    page = open_page(demo.url)
    expect(page.get_by_role("alert")).to_contain_text("The registry cannot be reached. Check the network")
    ask(page, "Go")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("No model: The registry cannot be reached.")
    script.load_error = None
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".sd-pair[data-state=ready]")).to_be_visible()
    expect(page.locator(".sd-trouble")).to_be_hidden()
    run(page)
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")
