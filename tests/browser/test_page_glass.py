"""The step under glass: by pointer and by key, under every rule, and closed again with nothing lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.decoding.steps import Verdict
from specdemo.race import Lane
from tests.browser.conftest import Demo, run, wait_for_state

pytestmark = pytest.mark.browser

PANE = "#sd-speculative .sd-text"


def sampled(demo: Demo, open_page: Callable[..., Page], rule: str) -> Page:
    """A run at a temperature under that rule, its last correction under glass."""
    page = open_page(f"{demo.url}?temperature=0.8&rule={rule}")
    page.wait_for_selector(".sd-pair[data-state=ready]")
    expect(page.locator("[data-set=summary]")).to_contain_text("Temperature 0.8")
    run(page)
    assert demo.script.asked.rule == rule
    page.click(f"{PANE} .t.c:has(i) >> nth=-1")
    return page


def step_of(demo: Demo, number: int) -> object:
    return [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE][number - 1]


def sd_visible(text: str) -> str:
    return text.replace(" ", "·").replace("\n", "⏎")


def shown_step(page: Page) -> int:
    return page.evaluate("sd.glass.shown?.step ?? 0")


def cells(page: Page) -> list[list[str]]:
    return page.evaluate(
        "() => [...document.querySelectorAll('.sd-glass tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )


def test_a_click_on_a_token_puts_its_step_under_glass(demo: Demo, page: Page) -> None:
    run(page)
    page.click(f"{PANE} .t.c:has(i) >> nth=-1")
    panel = page.get_by_role("region", name="Step under glass").or_(page.locator(".sd-looking"))
    expect(panel.first).to_be_visible()
    expect(page.locator("#sd-charts")).to_be_hidden()
    step = step_of(demo, shown_step(page))
    expect(page.locator(".sd-glass tbody tr")).to_have_count(len(step.drafted))
    expect(page.locator(".sd-glass tbody tr b")).to_have_text("refused")
    expect(page.locator("[data-glass=time]")).to_have_text(
        f"{1000 * step.seconds:.1f} ms wrote {len(step.tokens)} token" + "s" * (len(step.tokens) > 1)
    )
    expect(page.locator(".sd-lparts")).to_contain_text("verify 31.4")
    assert page.locator(f"{PANE} .t.on").count() == len(step.tokens)
    expect(page.locator("[data-glass=notes]")).to_contain_text("the target's likeliest token was")


def test_arrow_keys_step_and_escape_closes(demo: Demo, page: Page) -> None:
    run(page)
    page.focus(PANE)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    where = page.locator("[data-glass=where]")
    expect(where).to_contain_text("Step 2 of")
    assert page.evaluate("document.activeElement.className") == "sd-looking"
    page.keyboard.press("ArrowRight")
    expect(where).to_contain_text("Step 3 of")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(where).to_contain_text("Step 1 of")
    expect(page.locator("[data-glass=notes]")).to_contain_text("The first token comes from the prompt's own pass")
    expect(page.get_by_label("Previous step")).to_be_disabled()
    page.keyboard.press("End")
    steps = sum(one.lane is Lane.SPECULATIVE for one in demo.script.steps)
    expect(where).to_contain_text(f"Step {steps} of {steps}")
    page.keyboard.press("Escape")
    expect(page.locator(".sd-looking")).to_be_hidden()
    expect(page.locator("#sd-charts")).to_be_visible()
    assert page.evaluate("document.activeElement.closest('#sd-speculative .sd-text') !== null")
    assert page.locator(".t.on").count() == 0


def test_buttons_step_and_close(demo: Demo, page: Page) -> None:
    run(page)
    page.click(f"{PANE} .t.a:has(i) >> nth=-1")
    last = shown_step(page)
    page.get_by_label("Previous step").click()
    expect(page.locator("[data-glass=where]")).to_contain_text(f"Step {last - 1} of")
    page.get_by_role("button", name="Back to the charts").click()
    expect(page.locator(".sd-looking")).to_be_hidden()


def test_the_baselines_steps_can_be_looked_at_too(demo: Demo, page: Page) -> None:
    run(page)
    page.click("#sd-baseline .sd-text .t >> nth=-1")
    expect(page.locator("[data-glass=judged]")).to_have_text("Nothing was drafted")
    expect(page.locator("[data-glass=notes]")).to_have_text("A plain step: one pass of the target, one token.")


def test_rejection_shows_chance_draw_and_residual(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = sampled(demo, open_page, "rejection")
    expect(page.locator(".sd-same dd")).to_contain_text("Same distribution the words may differ")
    expect(page.locator("[data-fig=more]")).to_contain_text("The tests prove it, one run cannot.")
    expect(page.locator(".sd-glass thead")).to_contain_text("min(1, p/q)")
    expect(page.locator("[data-glass=after]")).to_have_text("What replaced it: max(p − q, 0), normalised")
    expect(page.locator(".sd-res .own + .num")).to_have_text("0.820")
    expect(page.locator("[data-glass=source]")).to_contain_text("The residual holds 0.45 of p")
    step = step_of(demo, shown_step(page))
    fell = next(d for d in step.drafted if d.verdict is Verdict.REFUSED)
    expect(page.locator("[data-glass=notes]")).to_contain_text(
        f"u = {fell.draw:.3f} is not below 0.210 / 0.520 = 0.404"
    )
    for row, drafted in zip(cells(page), step.drafted, strict=True):
        reached = drafted.verdict is not Verdict.UNREACHED
        assert row[-2] == (f"{drafted.draw:.3f}" if reached else "–")


def test_block_shows_which_start_passes(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = sampled(demo, open_page, "block")
    expect(page.locator("[data-fig=same]")).to_have_text("Same distribution")
    expect(page.locator("[data-glass=after]")).to_have_text("What replaced it: max(w p − q, 0), normalised")
    expect(page.locator(".sd-glass thead")).to_contain_text("chance, draft up to here")
    step = step_of(demo, shown_step(page))
    for row, drafted in zip(cells(page), step.drafted, strict=True):
        assert row[-1].startswith("passes" if drafted.draw < drafted.chance else "fails")
    expect(page.locator("[data-glass=notes]")).to_contain_text("Block judges the draft as a whole")


def test_shared_noise_shows_both_winners(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = sampled(demo, open_page, "shared noise")
    expect(page.locator("[data-fig=more]")).to_contain_text("Same seed, same words, at temperature 0.8.")
    expect(page.locator(".sd-glass thead")).to_contain_text("target's winner")
    step = step_of(demo, shown_step(page))
    for row, drafted in zip(cells(page), step.drafted, strict=True):
        winner = "–" if drafted.verdict is Verdict.UNREACHED else sd_visible(demo.script.words[drafted.draw])
        assert row[5] == winner and (row[4] == "–") == (winner == "–") == (row[7] == "–")
    expect(page.locator("[data-glass=notes]")).to_contain_text("the same noise made")
    expect(page.locator("[data-glass=source]")).to_contain_text("g is noise of the place and the token alone")


def test_its_detail_is_fetched_on_click_and_kept(demo: Demo, page: Page) -> None:
    run(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    page.focus(PANE)
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator(".sd-glass tbody tr").first).to_be_visible()
    first = len(asked)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('[data-glass=where]').textContent.includes('Step')")
    page.wait_for_function(
        "step => document.querySelector('[data-glass=where]').textContent.includes(`Step ${step} `)",
        arg=shown_step(page),
    )
    second = len(asked)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert first < second == len(asked), "a step that was fetched once is not fetched again"


def test_it_can_be_opened_while_the_race_runs_and_a_new_run_closes_it(demo: Demo, page: Page) -> None:
    demo.script.hold_at = 60
    page.fill("#sd-prompt textarea", "Go")
    page.click("#sd-run")
    page.wait_for_function("() => document.querySelectorAll('#sd-speculative .t').length > 20")
    page.click(f"{PANE} .t.a:has(i) >> nth=-1")
    expect(page.locator(".sd-glass tbody tr").first).to_be_visible()
    demo.script.go.set()
    wait_for_state(page, "done")
    steps = sum(one.lane is Lane.SPECULATIVE for one in demo.script.steps)
    expect(page.locator("[data-glass=where]")).to_contain_text(f"of {steps}")
    demo.script.hold_at = None
    run(page)
    expect(page.locator(".sd-looking")).to_be_hidden()


def test_the_token_that_was_pressed_is_meant_though_the_text_moves_on_under_the_pointer(demo: Demo, page: Page) -> None:
    run(page)
    page.set_viewport_size({"width": 1000, "height": 480})
    token = page.locator(f"{PANE} .t.c:has(i) >> nth=-1")
    token.hover()
    page.mouse.down()
    stood = page.evaluate(
        "pane => { const text = document.querySelector(pane), top = text.scrollTop; text.scrollTop = 0; return top; }",
        PANE,
    )
    assert stood > 0
    page.mouse.up()
    expect(token).to_have_class(re.compile(r"\bon\b"))


def test_a_run_that_the_server_forgot_is_told(demo: Demo, page: Page) -> None:
    run(page)
    demo.built.runs._visitors.clear()
    page.click(f"{PANE} .t.c:has(i) >> nth=-1")
    expect(page.locator("[data-glass=missing]")).to_contain_text("This run is no longer kept. Run it again")


def test_it_speaks_chinese_and_fits_a_phone(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, viewport={"width": 390, "height": 844}, locale="zh-CN")
    run(page)
    page.click(f"{PANE} .t.c:has(i) >> nth=-1")
    expect(page.locator(".sd-lhead h2")).to_have_text("单步细看")
    expect(page.locator("[data-glass=time]")).to_contain_text("毫秒写出")
    assert page.locator(".sd-lscroll").evaluate("node => node.scrollWidth - node.clientWidth") <= 1, "verdicts are seen"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_token_that_looks_like_markup_or_a_key_is_shown_as_it_is(demo: Demo, page: Page) -> None:
    demo.script.cut = ["Here", " <img src=x onerror=alert(1)>", "@title", " ${1}", "\n", " end"] * 6
    demo.script.agreement = 0.5
    run(page)
    count = sum(one.lane is Lane.SPECULATIVE for one in demo.script.steps)
    page.wait_for_function("count => sd.lanes.speculative.count === count", arg=count)
    for step in range(1, count + 1):
        page.evaluate("step => sd.glass.open('speculative', step)", step)
    page.wait_for_function("() => document.querySelector('[data-glass=where]').textContent !== ''")
    written = page.locator(".sd-glass").inner_html()
    assert "<img" not in written and json.dumps(written)
