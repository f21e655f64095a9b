"""The presenter view and the tour: large type, keys that never fight a field, five steps that can be left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, run, wait_for_state

pytestmark = pytest.mark.browser

SECONDS = 10
SMALLEST = """() => {
    const walker = document.createTreeWalker(document.querySelector(".sd-page"), NodeFilter.SHOW_TEXT);
    const sizes = [];
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || !parent.getClientRects().length) continue;
        if (parent.closest(".sd-unseen")) continue;
        sizes.push(parseFloat(getComputedStyle(parent).fontSize));
    }
    return Math.min(...sizes);
}"""


@pytest.fixture
def stage(demo: Demo, open_page: Callable[..., Page]) -> Page:
    """The presenter view on a projector, its pair loaded."""
    page = open_page(demo.url + "?view=presenter", viewport={"width": 1920, "height": 1080})
    page.wait_for_selector(".sd-present", state="attached")
    page.wait_for_selector(".sd-pair[data-state=ready]", state="attached")
    return page


def test_nothing_is_smaller_than_26_pixels_and_nothing_else_is_shown(stage: Page) -> None:
    stage.keyboard.press("Enter")
    wait_for_state(stage, "done")
    assert stage.evaluate(SMALLEST) >= 26
    for gone in (".sd-head", "#sd-prompt", ".sd-under", "#sd-charts", ".sd-view"):
        expect(stage.locator(gone)).to_be_hidden()
    for there in (".sd-score", "#sd-baseline", "#sd-speculative", ".sd-legend"):
        expect(stage.locator(there)).to_be_in_viewport(ratio=0.99)
    assert stage.evaluate("document.documentElement.scrollHeight") <= 1080


def test_enter_runs_escape_stops_then_leaves(demo: Demo, stage: Page) -> None:
    demo.script.hold_at = 20
    stage.keyboard.press("Enter")
    assert demo.script.held.wait(SECONDS)
    wait_for_state(stage, "running")
    stage.keyboard.press("Escape")
    assert demo.wait_for_stop(SECONDS)
    demo.script.go.set()
    wait_for_state(stage, "stopped")
    expect(stage.locator("body.sd-present")).to_be_attached()
    stage.keyboard.press("Escape")
    expect(stage.locator("body.sd-present")).to_have_count(0)
    assert "view=" not in stage.url


def test_arrows_step_through_the_tokens(stage: Page) -> None:
    stage.keyboard.press("Enter")
    wait_for_state(stage, "done")
    stage.keyboard.press("Home")
    tip = stage.get_by_role("tooltip")
    expect(tip).to_contain_text("token 1")
    stage.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("token 2")
    stage.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(stage.locator("body.sd-present")).to_be_attached()


def test_the_button_presents_and_a_text_field_keeps_its_keys(demo: Demo, page: Page) -> None:
    page.get_by_role("button", name="Present").click()
    expect(page.locator("body.sd-present")).to_be_attached()
    assert "view=presenter" in page.url
    page.evaluate("document.body.append(Object.assign(document.createElement('input'), { id: 'field' }))")
    page.focus("#field")
    page.keyboard.type("a b")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("body.sd-present")).to_be_attached()
    expect(page.locator("#field")).to_have_value("a b")
    assert page.locator(".sd-score").get_attribute("data-state") == "idle"
    page.get_by_role("button", name="Leave the presenter view").click()
    expect(page.locator("body.sd-present")).to_have_count(0)


def test_the_tour_takes_five_steps_by_keyboard_and_says_what_happened(demo: Demo, page: Page) -> None:
    page.get_by_role("button", name="Tour").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("One question, two lanes")
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("button", name="Run it")).to_be_focused()
    page.keyboard.press("Enter")
    wait_for_state(page, "done")
    expect(dialog).to_contain_text("Who wrote each token")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("× faster:")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Identical: 192 of 192 tokens.")
    expect(dialog).to_contain_text("5 of 5")
    page.keyboard.press("ArrowLeft")
    expect(dialog).to_contain_text("4 of 5")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Done").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Tour")).to_be_focused()


def test_the_tour_can_be_left_and_speaks_the_pages_language(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, locale="zh-CN")
    page.get_by_role("button", name="导览").click()
    expect(page.get_by_role("dialog")).to_contain_text("一个问题，两条赛道")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    run(page)
    page.get_by_role("button", name="导览").click()
    page.get_by_role("button", name="跳过导览").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
