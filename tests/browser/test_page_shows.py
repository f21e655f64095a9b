"""Languages, themes, the tooltip, examples and settings: what a visitor can see and reach, by pointer and by key."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, run

pytestmark = pytest.mark.browser


def test_a_token_explains_itself_on_hover(demo: Demo, page: Page) -> None:
    run(page)
    tip = page.get_by_role("tooltip")
    page.hover("#sd-speculative .t.c >> nth=-1")
    expect(tip).to_contain_text("corrected")
    expect(tip).to_contain_text("Refused here")
    expect(tip).to_contain_text("q 0.42, p 0")
    page.hover("#sd-speculative .t.a >> nth=-1")
    expect(tip).to_contain_text("q, draft0.81")
    page.hover("h1")
    expect(tip).to_be_hidden()


def test_a_token_explains_itself_by_keyboard(demo: Demo, page: Page) -> None:
    run(page)
    tip = page.get_by_role("tooltip")
    page.focus("#sd-speculative .sd-text")
    page.keyboard.press("Home")
    expect(tip).to_contain_text("Step 1, token 1")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("token 2")
    page.keyboard.press("End")
    expect(tip).to_contain_text("token 192")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_a_token_explains_itself_by_tap(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, viewport={"width": 390, "height": 844}, has_touch=True)
    run(page)
    page.tap("#sd-speculative .t.c >> nth=-1")
    expect(page.get_by_role("tooltip")).to_contain_text("Refused here")


@pytest.mark.parametrize(
    ("options", "query", "run_label", "verdict"),
    [
        ({"locale": "zh-CN"}, "", "运行", "速度为基线的"),
        ({"locale": "zh-TW"}, "", "執行", "速度為基線的"),
        ({}, "?lang=zh-CN", "运行", "速度为基线的"),
        ({"locale": "zh-CN"}, "?lang=en", "Run", "× faster"),
        ({"locale": "de-DE"}, "", "Run", "× faster"),
    ],
    ids=["zh-CN browser", "zh-TW browser", "zh-CN link", "English link", "another browser"],
)
def test_the_language_follows_the_browser_or_the_link(
    demo: Demo, open_page: Callable[..., Page], options: dict[str, str], query: str, run_label: str, verdict: str
) -> None:
    page = open_page(demo.url + query, **options)
    expect(page.locator("#sd-run")).to_have_text(run_label)
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text(verdict)


def test_the_language_can_be_switched_and_nothing_is_lost(demo: Demo, page: Page) -> None:
    run(page, "Keep me")
    page.locator("[data-head=language]").select_option("zh-CN")
    expect(page.locator("#sd-run")).to_have_text("运行")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("速度为基线的")
    expect(page.locator("#sd-baseline h2")).to_have_text("基线")
    expect(page.locator("#sd-prompt textarea")).to_have_value("Keep me")
    expect(page.locator("#sd-set-gamma")).to_contain_text("草稿长度")
    expect(page.locator("[data-chart=costs]")).to_contain_text("投机")
    expect(page.locator("[data-chart=map]")).to_contain_text("最佳")
    assert page.locator("#sd-baseline .t").count() > 10


def test_dark_theme_by_link_and_by_button(demo: Demo, open_page: Callable[..., Page]) -> None:
    background = "() => getComputedStyle(document.querySelector('.gradio-container')).backgroundColor"
    page = open_page(demo.url + "?__theme=dark")
    assert page.evaluate(background) == "rgb(13, 15, 18)"
    page = open_page(demo.url + "?__theme=light")
    assert page.evaluate(background) == "rgb(251, 251, 250)"
    page.click("[data-head=theme]")
    assert page.evaluate(background) == "rgb(13, 15, 18)"


def test_examples_fill_the_prompt(demo: Demo, page: Page) -> None:
    page.get_by_role("button", name="JSON rigid").click()  # its name, and what it shows
    expect(page.locator(".sd-chip i", has_text="loses")).to_have_count(1)
    expect(page.locator("#sd-prompt textarea")).to_have_value(re.compile("^Write a JSON array"))
    expect(page.get_by_role("button", name="JSON")).to_have_attribute("aria-pressed", "true")


def test_settings_open_are_summed_up_and_reach_the_run(demo: Demo, page: Page) -> None:
    page.click(".sd-set")
    gamma = page.locator("#sd-set-gamma input[type=number]")
    gamma.fill("0")
    gamma.press("Tab")
    expect(page.locator("[data-set=summary]")).to_contain_text("γ 0")
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("γ is 0, so both lanes decoded plainly")
    expect(page.locator("[data-fig=speed]")).to_be_hidden()


def test_a_phone_needs_no_sideways_scrolling(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, viewport={"width": 390, "height": 844})
    run(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
