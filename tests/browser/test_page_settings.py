"""The settings panel and the link that restores what it says: opened, closed, copied, and never trusted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.decoding.steps import DraftLength, Rule
from specdemo.ui.text import say
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


def choose(page: Page, name: str, option: str) -> None:
    """In a list of the settings."""
    page.click(f"#sd-set-{name} input")
    page.get_by_role("option", name=option).click()


def test_every_setting_says_what_it_does_and_those_of_sampling_reach_the_run(demo: Demo, page: Page) -> None:
    page.click(".sd-set")
    page.locator("#sd-settings").get_by_role("button", name="Sampling").click()
    for setting in page.locator("[id^=sd-set-]").all():
        name = setting.get_attribute("id").removeprefix("sd-set-")
        expect(setting).to_contain_text(say("en", f"{name}.info"))
    wanted = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.2}
    for name, value in wanted.items():
        page.fill(f"#sd-set-{name} input[type=number]", str(value))
    page.fill("#sd-settings input[aria-label=Seed]", "7")
    page.get_by_label("block", exact=True).check()
    choose(page, "draft_length", "two levels, 3 and 6")
    run(page)
    asked = demo.script.asked
    assert {name: getattr(asked.params, name) for name in wanted} == wanted and asked.params.seed == 7
    assert (asked.rule, asked.draft_length) == (Rule.BLOCK, DraftLength.TWO_LEVELS)
    assert asked.params.draft_temperature is None  # empty
    own = page.locator("#sd-set-draft_temperature").locator("input, textarea")
    own.fill("0.5")
    run(page)
    assert demo.script.asked.params.draft_temperature == 0.5
    own.fill("warm")
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Draft temperature is not a number.")


def test_a_preset_names_a_target_and_a_draft_that_the_run_then_wants(demo: Demo, page: Page) -> None:
    page.click(".sd-set")
    choose(page, "preset", "qwen3-8b (")
    expect(page.get_by_label("Draft model")).to_have_value("Qwen/Qwen3-0.6B")
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("No model is called Qwen/Qwen3-8B")
    choose(page, "preset", "none")
    page.get_by_label("n-gram lookup").check()
    run(page)
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")


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
