"""axe-core finds no serious violation: light and dark, English and Chinese, before a run, after it, and in every view.

What no checker sees is held here, too: a word left in another language, reduced motion, 200 % zoom, and a page that can
be worked by keyboard alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, run, wait_for_state

pytestmark = pytest.mark.browser

GRAVE = ("serious", "critical")
# A colour half way through a fade is no colour of the page's.
RUN = """parts => {
    for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish();
    return axe.run(parts.length ? { include: parts } : document, { resultTypes: ["violations"] });
}"""
UNTRANSLATED = """() => {
    const pieces = (lang) => Object.values(SD_TEXT[lang]).flatMap((one) => one.split("**")).map((one) => one.trim());
    const own = new Set(pieces(sd.lang));
    const words = pieces("en").filter((one) => !own.has(one) && /[a-z]{4}/.test(one.replace(/\\{\\w+\\}/g, "")));
    const escaped = (text) => text.replace(/[.*+?^${}()|[\\]\\\\]/g, "\\\\$&");
    const english = words.map((one) => new RegExp(`^${one.split(/\\{\\w+\\}/).map(escaped).join(".+")}$`));
    const said = new Set();
    for (const node of document.body.querySelectorAll("*")) {
        if (!node.getClientRects().length || node.closest(".sd-text, .sd-glass .t, .sd-how .t, code")) continue;
        for (const name of ["aria-label", "title", "placeholder"]) said.add(node.getAttribute(name) ?? "");
        for (const child of node.childNodes) if (child.nodeType === Node.TEXT_NODE) said.add(child.nodeValue.trim());
    }
    return [...said].filter((text) => text && english.some((one) => one.test(text)));
}"""


def untranslated(page: Page, *parts: str) -> list[str]:
    """What the page, wherever, still says in English though it has another language."""
    return page.evaluate(UNTRANSLATED)


def violations(page: Page, *parts: str) -> list[str]:
    """What is wrong on the page as it stands, or in parts of it, one line a node; and what is still said in English."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate(RUN, [[part] for part in parts])["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ] + untranslated(page)


@pytest.mark.parametrize(
    ("theme", "language"), [("light", "en"), ("dark", "en"), ("light", "zh-CN"), ("dark", "zh-TW")]
)
def test_axe_finds_no_serious_violation(demo: Demo, open_page: Callable[..., Page], theme: str, language: str) -> None:
    page = open_page(f"{demo.url}?__theme={theme}&lang={language}")
    page.wait_for_selector(".sd-pair[data-state=ready]")
    expect(page.locator("html")).to_have_attribute("lang", language)
    assert violations(page) == []
    page.locator(".sd-chatsw").click()
    run(page)
    page.locator("[data-view=steps]").click()
    page.focus("#sd-speculative .sd-text")
    page.keyboard.press("Home")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.locator(".sd-glass tbody td").or_(page.locator("[data-glass=notes]")).first).to_be_visible()
    page.locator(".sd-set").click()
    expect(page.locator("[data-settings=close]")).to_be_focused()
    assert violations(page, "#sd-settings", ".sd-looking") == []
    page.keyboard.press("Escape")
    page.locator("[data-go='0']").click()
    wrong = violations if language == "en" else untranslated  # another language changes nothing but words here
    for tab in ("whatif", "money", "runs"):
        page.locator(f"[data-tab={tab}]").click()
        assert wrong(page, "#sd-charts") == []
    page.locator("[data-head=how]").click()
    expect(page.locator("[data-how=worked]")).to_be_visible()
    assert wrong(page, ".sd-how") == []
    page.keyboard.press("Escape")
    page.locator("[data-head=tour]").click()
    assert violations(page, ".sd-tour") == []
    page.keyboard.press("Escape")
    page.locator("[data-head=present]").click()
    assert violations(page) == []


def test_reduced_motion_moves_nothing(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, reduced_motion="reduce")
    run(page)
    moving = """() => [...document.querySelectorAll(".sd-part *")].filter((node) => {
        const style = getComputedStyle(node);
        return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0.01;
    }).map((node) => node.outerHTML.slice(0, 80))"""
    assert page.evaluate(moving) == []


def test_at_200_percent_zoom_nothing_is_cut_off(demo: Demo, open_page: Callable[..., Page]) -> None:
    """Zooming a 1280 pixel window to 200 % leaves 640 CSS pixels."""
    page = open_page(demo.url, viewport={"width": 640, "height": 400}, device_scale_factor=2)
    run(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_a_run_needs_no_pointer(demo: Demo, page: Page) -> None:
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
        if page.evaluate("document.activeElement.id") == "sd-run":
            break
    assert {"sd-run"} <= reached
    page.keyboard.press("Enter")
    wait_for_state(page, "done")
    expect(page.locator(".sd-status")).to_contain_text("× faster")
