"""The page that teaches: reached by button and link, with a step of the last run, left by Escape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.race import Lane
from tests.browser.conftest import Demo, run

pytestmark = pytest.mark.browser


def test_it_works_through_a_step_of_the_last_run(demo: Demo, page: Page) -> None:
    run(page, "Tell me <b>about</b> lists.")
    page.get_by_role("button", name="How it works").click()
    article = page.get_by_role("article")
    expect(article).to_be_focused()
    expect(page.locator("#sd-prompt")).to_be_hidden()
    expect(article).to_contain_text("of the last run on this page: Scripted model, drafted by ngram.")
    expect(article).to_contain_text("“Tell me <b>about</b> lists.”")
    number = int(page.locator("[data-how=source]").inner_text().split()[1])
    step = [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE][number - 1]
    rows = page.locator(".sd-how tbody tr")
    expect(rows).to_have_count(len(step.drafted))
    drafted = [demo.script.words[one.id].replace(" ", "·").replace("\n", "⏎") for one in step.drafted]
    assert [rows.nth(i).locator("td").first.inner_text() for i in range(len(drafted))] == drafted
    expect(page.locator("[data-how=tokens] .t")).to_have_count(len(step.tokens))
    for taught in ("Shared noise", "Rejection", "Block", "x ✓ ⇔ u < p(x) / q(x)", "When it does not pay", "gives 2.8×"):
        expect(article).to_contain_text(taught)
    page.keyboard.press("Escape")
    expect(article).to_be_hidden()
    expect(page.locator("#sd-prompt")).to_be_visible()
    expect(page.get_by_role("button", name="How it works")).to_be_focused()


def test_a_link_opens_it_and_it_speaks_the_pages_language(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url + "?view=how", locale="zh-CN")
    article = page.get_by_role("article")
    expect(article).to_contain_text("为什么一次前向能检查几个词元")
    page.locator("[data-head=language]").select_option("zh-TW")
    expect(article).to_contain_text("什麼時候不划算")
    page.get_by_role("button", name="回到競速").click()
    expect(article).to_be_hidden()
    assert "view=" not in page.url
