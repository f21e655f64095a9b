"""The settings panel and the link that restores what it says: opened, closed, copied, and never trusted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.decoding.steps import Rule
from tests.browser.conftest import Demo, run

pytestmark = pytest.mark.browser


def test_the_panel_closes_by_a_labelled_button_and_by_escape(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, viewport={"width": 390, "height": 844})
    opener = page.locator(".sd-set")
    opener.click()
    close = page.get_by_role("button", name="Close", exact=True)
    expect(close).to_be_focused()
    expect(close).to_be_in_viewport()
    close.click()
    expect(page.locator("#sd-settings.open")).to_have_count(0)
    expect(opener).to_be_focused()
    opener.click()
    expect(close).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#sd-settings.open")).to_have_count(0)
    expect(close).to_be_hidden()


def test_gradios_own_controls_are_named_in_the_pages_language(demo: Demo, page: Page) -> None:
    toggle = page.locator("#sd-settings .toggle-button")
    slider = page.locator("#sd-set-gamma input[type=range]")
    expect(toggle).to_have_attribute("aria-label", "Close the settings")
    page.click(".sd-set")
    expect(slider).to_have_attribute("aria-label", "Draft length γ: slider")
    page.keyboard.press("Escape")
    page.locator("[data-head=language]").select_option("zh-TW")
    expect(toggle).to_have_attribute("aria-label", "關閉設定")
    expect(slider).to_have_attribute("aria-label", "草稿長度 γ：滑桿")


def test_an_example_brings_its_settings_and_takes_them_away_again(demo: Demo, page: Page) -> None:
    said = page.locator("[data-set=summary]")
    page.locator(".sd-chip", has_text="Invented words").click()
    expect(said).to_contain_text("draft length γ 16 ·")
    page.locator(".sd-chip", has_text="JSON").click()
    expect(said).to_contain_text("draft length γ 5 at most")
    page.click(".sd-set")
    gamma = page.locator("#sd-set-gamma input[type=number]")
    gamma.fill("3")
    gamma.press("Tab")
    expect(said).to_contain_text("γ 3")
    page.keyboard.press("Escape")
    page.locator(".sd-chip", has_text="SQL").click()
    expect(page.locator("#sd-prompt textarea")).to_have_value(re.compile("SQL", re.IGNORECASE))
    expect(said).to_contain_text("γ 3")  # a person's own setting stays


def test_stop_strings_reach_the_run(demo: Demo, page: Page) -> None:
    page.click(".sd-set")
    page.locator("#sd-set-stop_strings textarea").fill("END\n\\n\\n")
    run(page)
    assert demo.script.asked.stop_strings == ("END", "\n\n")
    page.locator("#sd-set-stop_strings textarea").fill("\n".join("123456789"))
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("There are 9 stop strings; at most 8 are possible.")


def test_a_copied_link_restores_prompt_and_settings(demo: Demo, page: Page, open_page: Callable[..., Page]) -> None:
    page.fill("#sd-prompt textarea", "Count & name 50 % of <them>?")
    page.click(".sd-set")
    gamma = page.locator("#sd-set-gamma input[type=number]")
    gamma.fill("3")
    gamma.press("Tab")
    page.get_by_label("one after another").check()
    page.locator("#sd-set-stop_strings textarea").fill("END\nSTOP")
    expect(page.locator("[data-set=summary]")).to_contain_text("one after another")
    page.get_by_role("button", name="Copy link").click()
    address = page.locator("[data-settings=address]")
    expect(address).to_be_visible()
    page.wait_for_function("() => document.querySelector('[data-settings=address]').value.includes('STOP')")
    other = open_page(address.input_value())
    expect(other.locator("#sd-prompt textarea")).to_have_value("Count & name 50 % of <them>?")
    expect(other.locator("[data-set=summary]")).to_contain_text("γ 3")
    other.click("#sd-run")
    expect(other.locator(".sd-score[data-state=done]")).to_be_visible()
    asked = demo.script.asked
    assert (asked.gamma, asked.mode, asked.stop_strings) == (3, "one after another", ("END", "STOP"))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("gamma=99", "Draft length γ is 99; it must lie between 0 and 16."),
        ("gamma=<img src=x onerror=window.hacked=1>", "Draft length γ is not a number."),
        ("rule=metropolis", "Verification rule is none of the choices"),
        ("colour=${window.hacked=2}", "colour is not the name of a setting."),
        ("seed=1e999", "Seed is ∞; it must lie between"),
        ("stop_strings=" + "x" * 1500, "Stop strings has 1,500 characters; at most 1,000 are possible."),
    ],
)
def test_a_hostile_link_is_refused_by_a_sentence_and_the_rest_stands(
    demo: Demo, open_page: Callable[..., Page], query: str, sentence: str
) -> None:
    page = open_page(f"{demo.url}?{query}&prompt=Kept&temperature=0.5&lang=en")
    expect(page.locator("[data-fig=verdict]")).to_contain_text(sentence)
    expect(page.locator("#sd-prompt textarea")).to_have_value("Kept")
    expect(page.locator("[data-set=summary]")).to_contain_text("Temperature 0.5")
    assert page.evaluate("window.hacked") is None
    run(page)
    assert demo.script.asked.gamma == 5 and demo.script.asked.rule is Rule.SHARED_NOISE


def test_the_settings_are_saved_as_a_file_of_options(demo: Demo, page: Page) -> None:
    page.click(".sd-set")
    page.get_by_label("one after another").check()
    expect(page.locator("[data-set=summary]")).to_contain_text("one after another")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save file").click()
    assert saved.value.suggested_filename == "demo.yaml"
    text = saved.value.path().read_text("utf-8")
    assert "mode: one-after-another\n" in text and "gamma: 5\n" in text
