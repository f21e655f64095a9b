"""The whole way once: the embedded model, two lanes, one page, a short answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.models.pair_options import PairSpec
from specdemo.race import Lane
from specdemo.ui.own_engine import real_engine
from tests.browser.conftest import Demo, ask
from tests.browser.test_page_streams import TEXT
from tests.ui.synthetic import Synthetic

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

FETCHING = 300_000  # milliseconds: the model may have to be fetched and converted first


def test_the_embedded_model_races_and_both_lanes_write_the_same(
    served: Callable[..., Demo], open_page: Callable[..., Page]
) -> None:
    demo = served(real_engine(), PairSpec(), Synthetic())
    page = open_page(demo.url)
    page.click(".sd-set")
    limit = page.locator("#sd-set-max_new_tokens input[type=number]")
    limit.fill("24")
    limit.press("Tab")
    ask(page, "Repeat after me: one two three, one two three, one two three.")
    verdict = page.locator("[data-fig=verdict]")
    expect(page.locator(".sd-score[data-state=done]")).to_be_visible(timeout=FETCHING)
    expect(verdict).not_to_contain_text("Fault")
    expect(page.locator(".sd-pair")).to_contain_text("SmolLM2-135M-Instruct")
    texts = {lane: page.evaluate(TEXT, lane) for lane in Lane}
    assert len(texts[Lane.BASELINE]) > 5
    if page.locator("[data-fig=same]").inner_text() in ("Identical", "Bit-identical"):
        assert texts[Lane.BASELINE] == texts[Lane.SPECULATIVE]
