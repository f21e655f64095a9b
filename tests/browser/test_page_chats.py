"""Several turns: what was said is shown, read again with the next question, kept in this page alone, and let go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, ask, run, wait_for_state

pytestmark = pytest.mark.browser


def turn(page: Page, prompt: str) -> None:
    """A turn, to its end."""
    run(page, prompt)
    wait_for_state(page, "done")


def test_a_chat_goes_on_where_it_was_and_says_how_much_was_reused(demo: Demo, page: Page) -> None:
    chat = page.get_by_role("switch", name="Chat")
    chat.click()
    expect(chat).to_have_attribute("aria-checked", "true")
    expect(page.locator("[data-chat=note]")).to_contain_text("The next question begins a chat")
    turn(page, "Name a colour")
    expect(page.locator("#sd-prompt textarea")).to_have_value("")
    expect(page.locator(".sd-turns li")).to_have_count(1)
    expect(page.locator(".sd-turns")).to_contain_text("Name a colour")
    first = len(demo.script.asked.prompt_ids)
    turn(page, "Another <b>one</b>")
    expect(page.locator(".sd-turns li")).to_have_count(2)
    expect(page.locator(".sd-turns li >> nth=0")).to_contain_text("Here is a function that removes duplicates")
    expect(page.locator(".sd-turns li >> nth=1")).to_contain_text("Another <b>one</b>")
    asked = demo.script.asked
    assert asked.reuse and len(asked.prompt_ids) > first + 100
    note = page.locator("[data-chat=note]")
    expect(note).to_contain_text(f"Turn 2: {len(asked.prompt_ids)} tokens to read, {demo.script.reused} of them held")
    assert demo.script.reused > 100


def test_a_chat_is_neither_left_nor_begun_while_its_turn_is_going(demo: Demo, page: Page) -> None:
    chat = page.get_by_role("switch", name="Chat")
    chat.click()
    turn(page, "Name a colour")
    demo.script.hold_at = 20
    ask(page, "Another")
    wait_for_state(page, "running")
    expect(chat).to_be_disabled()
    expect(page.get_by_role("button", name="New chat")).to_be_disabled()
    demo.script.go.set()
    wait_for_state(page, "done")
    expect(chat).to_be_enabled()
    expect(page.locator(".sd-turns li")).to_have_count(2)


def test_a_new_chat_and_a_single_prompt_read_nothing_of_the_old_one(demo: Demo, page: Page) -> None:
    page.get_by_role("switch", name="Chat").click()
    turn(page, "Name a colour")
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".sd-turns li")).to_have_count(0)
    turn(page, "Say")
    assert len(demo.script.asked.prompt_ids) == 1
    page.get_by_role("switch", name="Chat").click()
    expect(page.locator(".sd-chat")).to_be_hidden()
    turn(page, "Say")
    assert len(demo.script.asked.prompt_ids) == 1 and not demo.script.asked.reuse


def test_another_visitor_neither_sees_nor_reuses_it(demo: Demo, page: Page, open_page: Callable[..., Page]) -> None:
    page.get_by_role("switch", name="Chat").click()
    turn(page, "Name a colour")
    other = open_page(demo.url)
    other.get_by_role("switch", name="Chat").click()
    turn(other, "Name a colour")
    expect(other.locator(".sd-turns li")).to_have_count(1)
    assert not demo.script.asked.reuse
    turn(page, "Another")
    assert not demo.script.asked.reuse, "the caches hold the other visitor's words"


def test_a_refused_turn_stays_in_the_box_and_adds_nothing(demo: Demo, page: Page) -> None:
    page.get_by_role("switch", name="Chat").click()
    turn(page, "Name a colour")
    demo.script.context = 60
    ask(page, "Another")
    wait_for_state(page, "refused")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Begin a new chat.")
    expect(page.locator("#sd-prompt textarea")).to_have_value("Another")
    expect(page.locator(".sd-turns li")).to_have_count(1)


def test_the_chat_speaks_the_pages_language(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, locale="zh-TW")
    page.get_by_role("switch", name="對話").click()
    turn(page, "你好")
    expect(page.locator("[data-chat=note]")).to_contain_text("第 1 輪")
    page.locator("[data-head=language]").select_option("en")
    expect(page.locator("[data-chat=note]")).to_contain_text("Turn 1")
