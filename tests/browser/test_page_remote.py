"""A page whose lanes are two servers: they race, are marked once these have told, and the Lab has what they allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from specdemo.remote.options import Servers
from specdemo.ui.desk import Desk
from specdemo.ui.remote_engine import remote_engine
from tests.browser.conftest import Demo, ask, serve_desk, wait_for_state
from tests.remote.server import recorded, serving
from tests.ui.synthetic import Synthetic


@pytest.fixture
def remote_demo() -> Iterator[Demo]:
    with serving(recorded("plain")) as plain, serving(recorded("eagle")) as eagle:
        desk = Desk(remote_engine(), Servers(plain.url, eagle.url))
        desk.open()
        yield from serve_desk(desk, Synthetic())


def test_two_servers_race_on_the_page(remote_demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(remote_demo.url)
    page.wait_for_selector(".sd-pair[data-state=ready]")
    expect(page.locator("#sd-set-gamma")).to_have_count(0)
    ask(page, "Explain step by step how to boil an egg.")
    wait_for_state(page, "done")
    expect(page.locator(".sd-score")).to_contain_text("18 of 188 tokens")
    expect(page.locator("#sd-speculative .t.a")).to_have_count(17)
    expect(page.locator("#sd-speculative .t.u")).to_have_count(0)
    expect(page.locator(".sd-clocks")).to_contain_text("Two servers")
    page.locator("#sd-speculative .t.a").first.click()
    expect(page.locator(".sd-looking")).to_contain_text("drafted tokens were accepted")
    page.locator("[data-head=lab]").click()
    page.locator("[data-lab=list] button", has_text="Draft router").click()
    expect(page.locator("[data-lab=closed]")).to_contain_text("Needs models on this machine")
    expect(page.locator("[data-lab=run]")).to_be_disabled()
    page.locator("[data-lab=list] button", has_text="Temperature sweep").click()
    expect(page.locator("[data-lab=closed]")).to_be_hidden()
    expect(page.locator("[data-lab=run]")).to_be_enabled()
    expect(page.locator("[data-field=gammas]")).to_have_count(0)
