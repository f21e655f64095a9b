"""What a reader can do with the lanes: refused drafts, slow motion, Markdown, copying, following, and what to try."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.decoding.steps import Verdict
from specdemo.race import Lane
from tests.browser.conftest import Demo, another_run, ask, run, wait_for_state
from tests.ui.synthetic import END

pytestmark = pytest.mark.browser

PANE = "#sd-speculative .sd-text"
TEXT = """lane => [...document.querySelectorAll(`#sd-${lane} .sd-text .t[data-i]`)].map(n => n.textContent).join("")"""
LEFTS = f"() => [...document.querySelectorAll('{PANE} .t i')].map(n => Math.round(n.getBoundingClientRect().left))"
LINED = """() => [...document.querySelectorAll('.sd-text .t')]
    .filter(n => getComputedStyle(n.querySelector('i') ?? n).borderLeftWidth === '1px').map(n => +n.dataset.i)"""
GHOSTS = """() => [...document.querySelectorAll('.sd-ghost')].filter(n => !n.hidden).map(n => {
    const r = n.getBoundingClientRect();
    return [Math.round(r.left), Math.round(r.top), Math.round(r.right)];
})"""
AT_END = "node => node.scrollTop + node.clientHeight >= node.scrollHeight - 4"
WATCH = f"""() => {{
    window.pended = window.struck = 0;
    new MutationObserver(list => {{
        for (const node of list.flatMap(one => [...one.addedNodes])) {{
            if (node.querySelector?.(".t.p")) window.pended++;
            if (node.matches?.(".sd-pending") && node.querySelector(".sd-no")) window.struck++;
        }}
    }}).observe(document.querySelector("{PANE}"), {{ childList: true, subtree: true }});
}}"""
MARKDOWN = """# A *short* title

Some **bold words** and `code = 1`, [a link](https://example.org/x) and <img src=x onerror=window.hacked=1>.

- first
  - inner
1. one

> said

```python
def f(x):
    return **x** # not bold
```
Done."""


def steps_that_fell(demo: Demo) -> int:
    steps = [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE]
    return sum(any(d.verdict is Verdict.REFUSED for d in step.drafted) for step in steps)


def test_refused_drafts_stand_under_the_line_and_move_no_word(demo: Demo, page: Page) -> None:
    run(page)
    page.evaluate("() => document.fonts.ready.then(() => true)")  # code's own comes with the first code
    before, text = page.evaluate(LEFTS), page.evaluate(TEXT, "speculative")
    page.click("[data-view=refused]")
    expect(page.locator(".sd-ghost").first).to_be_visible()
    assert page.locator(".sd-ghost").count() == steps_that_fell(demo)
    assert page.evaluate(LEFTS) == before and page.evaluate(TEXT, "speculative") == text
    spots = page.evaluate(GHOSTS)
    assert all(a[2] <= b[0] for a in spots for b in spots if abs(a[1] - b[1]) < 8 and b[0] > a[0]), (
        "none covers another"
    )
    page.evaluate(f"() => getSelection().selectAllChildren(document.querySelector('{PANE}'))")
    copied = page.evaluate("() => getSelection().toString()")
    assert copied.replace("\n", "") == text.replace("\n", ""), "nobody copies them"
    page.click("[data-view=refused]")
    expect(page.locator(".sd-ghost").first).to_be_hidden()


def test_the_legend_explains_and_counts_and_a_switch_shows_where_steps_begin(demo: Demo, page: Page) -> None:
    run(page)
    expect(page.locator("[data-origin=refused]")).to_have_text(str(steps_that_fell(demo)))
    expect(page.locator(".sd-legend > span:visible")).to_have_text(
        [
            re.compile("^targetthe model alone"),
            re.compile("^accepteddrafted, and the model agreed"),
            re.compile("^correcteddrafted wrong, so the model wrote it"),
            re.compile("^bonusextra, after a full draft"),
            re.compile("^refusedthe model disagreed"),
        ]
    )
    assert page.evaluate(LINED) == []
    switch = page.get_by_role("switch", name="Steps")
    switch.press("Space")
    expect(switch).to_have_attribute("aria-checked", "true")
    steps = [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE]
    assert page.evaluate(LINED) == [sum(len(step.tokens) for step in steps[:i]) for i in range(len(steps))]


def test_slow_motion_shows_drafts_before_they_are_judged(demo: Demo, page: Page) -> None:
    page.click("[data-view=slow]")
    expect(page.locator(".sd-lpending")).to_be_visible()
    page.evaluate(WATCH)
    run(page)
    page.wait_for_function("() => window.pended > 2 && window.struck > 0")  # struck out until the next draft
    page.click("[data-view=slow]")
    expect(page.locator(f"{PANE} .t[data-i]")).to_have_count(192)
    assert page.locator(".sd-pending").count() == 0


def test_slow_motion_plays_a_finished_run_again(demo: Demo, page: Page) -> None:
    run(page)
    page.click("[data-view=slow]")
    page.wait_for_function("() => document.querySelectorAll('#sd-speculative .t[data-i]').length < 30")
    page.wait_for_selector(".sd-pending .t.p")
    page.click("[data-view=slow]")
    expect(page.locator(f"{PANE} .t[data-i]")).to_have_count(192)
    expect(page.locator("#sd-baseline .t[data-i]")).to_have_count(192)


def test_under_reduced_motion_slow_motion_goes_by_key(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(demo.url, reduced_motion="reduce")
    run(page)
    tokens = page.locator(f"{PANE} .t[data-i]")
    page.click("[data-view=slow]")
    expect(tokens).to_have_count(0)
    turn = page.get_by_role("button", name="Next", exact=True)
    turn.click()  # the prompt's own token, which nobody drafted
    expect(tokens).to_have_count(1)
    turn.click()
    expect(page.locator(".sd-pending .t.p")).to_have_count(5)
    expect(tokens).to_have_count(1)
    page.focus(PANE)
    page.keyboard.press("Space")
    first = [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE][1]
    expect(tokens).to_have_count(1 + len(first.tokens))
    expect(page.locator("#sd-baseline .t[data-i]").first).to_be_visible()


def test_markdown_is_set_and_every_visible_token_keeps_its_mark(demo: Demo, page: Page) -> None:
    demo.script.text = MARKDOWN
    run(page)
    text = page.evaluate(TEXT, "speculative")
    marks = page.evaluate(f"() => [...document.querySelectorAll('{PANE} .t')].map(n => n.className.split(' ')[1])")
    page.click("[data-view=markdown]")
    pane = page.locator(PANE)
    expect(pane.locator(".md-h1")).to_have_text("A short title")
    expect(pane.locator(".md-h1 .md-i")).to_have_text("short")
    assert pane.locator(".md-line .md-b").all_text_contents() == ["bold", "words"]  # a space before a word has no style
    assert pane.locator(".md-line .md-c").all_text_contents() == ["code", "=", "1"]
    expect(pane.locator("[class^=md-item]")).to_have_text(["first", "inner"])
    expect(pane.locator(".md-code")).to_have_text(["def f(x):", "    return **x** # not bold"])
    assert "<img src=x onerror=window.hacked=1>" in pane.inner_text()
    assert pane.locator("a, img, script").count() == 0 and page.evaluate("window.hacked") is None
    seen = page.evaluate(
        f"() => [...document.querySelectorAll('{PANE} .t')].map(n => [+n.dataset.i, n.className.split(' ')[1]])"
    )
    assert all(marks[i] == mark for i, mark in seen)
    unseen = set(range(len(marks))) - {i for i, _ in seen}
    told = page.locator("#sd-speculative [data-pane=unseen]").text_content()
    assert "Markdown signs alone" in told and 0 < int(told.split()[0]) <= len(unseen)
    page.focus(PANE)
    page.keyboard.press("Home")  # goes to the first token that is drawn
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.click("[data-view=markdown]")
    assert page.evaluate(TEXT, "speculative") == text == MARKDOWN + END


def test_the_text_is_copied_as_it_was_written(demo: Demo, open_page: Callable[..., Page]) -> None:
    demo.script.text = MARKDOWN
    page = open_page(demo.url, permissions=["clipboard-read", "clipboard-write"])
    run(page)
    page.click("[data-view=markdown]")
    copy = page.locator("#sd-speculative [data-pane=copy]")
    copy.click()
    expect(copy).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == MARKDOWN
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no https')); }")
    page.locator("#sd-baseline [data-pane=copy]").click()
    expect(page.locator("#sd-baseline [data-pane=copy]")).to_have_text("Copied")


def test_following_yields_to_the_reader_and_can_be_taken_up_again(demo: Demo, page: Page) -> None:
    demo.script.hold_at = 150
    ask(page, "Go")
    assert demo.script.held.wait(10)
    page.wait_for_function(f"() => document.querySelector('{PANE}').scrollTop > 40")
    page.wait_for_function(f"() => ({AT_END})(document.querySelector('{PANE}'))")
    follow = page.locator("#sd-speculative [data-pane=follow]")
    expect(follow).to_be_hidden()
    # The text becomes a little shorter in the same moment, as when its font has come.
    page.evaluate(
        f"() => {{ const pane = document.querySelector('{PANE}'); pane.style.lineHeight = '25px'; "
        "pane.scrollTop = 0; }"
    )
    expect(follow).to_be_visible()
    demo.script.go.set()
    wait_for_state(page, "done")
    assert page.evaluate(f"() => document.querySelector('{PANE}').scrollTop") == 0, "the reader is left alone"
    follow.click()
    expect(follow).to_be_hidden()
    assert page.locator(PANE).evaluate(AT_END)


def test_a_slower_run_proposes_settings_and_a_press_runs_with_them(demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{demo.url}?draft_length=fixed")
    page.wait_for_selector(".sd-pair[data-state=ready]")
    expect(page.locator("[data-set=summary]")).not_to_contain_text("at most")
    demo.script.agreement = 0.05
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text(
        re.compile(r"Slower, 0\.\d\d×: .* are needed to pay for it")
    )
    expect(page.locator("[data-fig=more]")).to_contain_text("gives a drafter little to foresee")
    with another_run(page):
        page.get_by_role("button", name="Cost-optimal γ").click()
    wait_for_state(page, "done")
    assert demo.script.asked.draft_length == "cost optimal"


def test_a_figure_says_what_it_means_by_focus_and_tap(demo: Demo, page: Page) -> None:
    run(page)
    page.get_by_role("button", name="Acceptance rate").focus()
    expect(page.get_by_role("tooltip")).to_contain_text("Accepted / drafted")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()
    page.get_by_role("button", name="Mean acceptance length").click()
    expect(page.get_by_role("tooltip")).to_contain_text("1 + accepted / steps that drafted")
