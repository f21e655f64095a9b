"""Both panes stream, and show what the engine gave: token by token, mark by mark, letter by letter."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from specdemo.race import Lane
from tests.browser.conftest import Demo, ask, run, wait_for_state
from tests.ui.synthetic import END, STORY

pytestmark = pytest.mark.browser

MARKS = {"target": "n", "accepted": "a", "corrected": "c", "bonus": "b"}
SHOWN = """lane => [...document.querySelectorAll(`#sd-${lane} .sd-text .t`)]
    .map(node => [Number(node.dataset.id), node.classList[1], node.textContent])"""
AT_END = """() => {
    const text = document.querySelector("#sd-speculative .sd-text");
    return text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
}"""
TEXT = """lane => [...document.querySelectorAll(`#sd-${lane} .sd-text .t`)].map(node => node.textContent).join("")"""


def emitted(demo: Demo, lane: Lane) -> list[tuple[int, str]]:
    """Ids and marks of the race, as the engine yielded them."""
    steps = [one.step for one in demo.script.steps if one.lane is lane]
    return [(token.id, MARKS[token.origin]) for step in steps for token in step.tokens]


def test_each_token_wears_the_mark_of_its_origin(demo: Demo, page: Page) -> None:
    run(page)
    for lane in Lane:
        shown = page.evaluate(SHOWN, lane)
        assert [(token_id, mark) for token_id, mark, _ in shown] == emitted(demo, lane)
        assert [text for _, _, text in shown] == [demo.script.words[token_id] for token_id, _ in emitted(demo, lane)]
    assert {mark for _, mark in emitted(demo, Lane.SPECULATIVE)} == set("nacb")


def test_both_panes_stream_while_the_race_runs(demo: Demo, page: Page) -> None:
    demo.script.hold_at = 60
    ask(page, "Go")
    page.wait_for_function("() => document.querySelectorAll('#sd-baseline .t').length > 10")
    page.wait_for_function("() => document.querySelectorAll('#sd-speculative .t').length > 20")
    expect(page.locator("#sd-stop")).to_be_enabled()
    expect(page.locator("#sd-run")).to_be_disabled()
    expect(page.locator("[data-fig=verdict]")).to_contain_text("so far")
    demo.script.go.set()
    wait_for_state(page, "done")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("× faster:")
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")


def test_figures_are_those_of_the_metrics(demo: Demo, page: Page) -> None:
    run(page)
    steps = [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE]
    accepted, drafted = sum(step.accepted for step in steps), sum(len(step.drafted) for step in steps)
    expect(page.locator("[data-fig=acceptance-note]")).to_have_text(f"{accepted} of {drafted} tokens")
    expect(page.locator("[data-fig=passes]")).to_have_text(str(len(steps) - 1))
    marks = [mark for _, mark in emitted(demo, Lane.SPECULATIVE)]
    for origin, mark in MARKS.items():
        expect(page.locator(f"[data-origin={origin}]")).to_have_text(str(marks.count(mark)))


HOSTILE = (
    '<img src=x onerror=window.hacked=1> ${window.hacked=2} `${window.hacked=3}` {{value}} {{#each x}} __i18n__{"k":1} '
    "</script><script>window.hacked=4</script> &lt;b&gt; <b>bold</b> \\u003c $& $1 %lane% ** not bold ** \u2028 😀 café"
)


def test_hostile_text_is_shown_letter_by_letter(demo: Demo, page: Page) -> None:
    demo.script.text = HOSTILE
    run(page, HOSTILE)
    for lane in Lane:
        assert page.evaluate(TEXT, lane) == HOSTILE + END
    assert page.evaluate("window.hacked") is None
    assert page.locator(".sd-text img, .sd-text b, .sd-text script").count() == 0


def test_hostile_drafts_and_partings_are_shown_as_text(demo: Demo, page: Page) -> None:
    demo.script.text = "one <img src=x onerror=window.hacked=1> two"
    demo.script.parted = "one ${window.hacked=2} <svg onload=window.hacked=3> two"
    run(page)
    parting = page.locator(".sd-parting code")
    expect(parting.first).to_contain_text("<img")
    expect(parting.last).to_contain_text("${window")
    expect(page.locator("[data-fig=more]")).to_contain_text("a rounding tie: the two best logits lie 0.06 apart")
    assert page.evaluate("window.hacked") is None


def test_a_character_of_several_tokens_wears_the_mark_of_its_last(demo: Demo, page: Page) -> None:
    demo.script.text = "x é y"
    demo.script.cut = ["x", "half-é", " é", " y"]
    run(page)
    shown = page.evaluate(SHOWN, Lane.BASELINE)
    assert [text for _, _, text in shown] == ["x", " é", " y", END]
    page.hover("#sd-baseline .t >> nth=1")
    expect(page.locator("#sd-tip code")).to_have_count(2)


def test_a_second_run_replaces_the_first(demo: Demo, page: Page) -> None:
    run(page)
    demo.script.text = "A second answer."
    run(page)
    assert page.evaluate(TEXT, Lane.BASELINE) == "A second answer." + END


def test_the_text_follows_its_end_until_the_reader_scrolls(demo: Demo, page: Page) -> None:
    demo.script.text = STORY * 3
    demo.script.hold_at = 300
    ask(page, "Go")
    page.wait_for_function("() => document.querySelectorAll('#sd-speculative .t').length > 150")
    page.wait_for_function(AT_END)
    page.locator("#sd-speculative .sd-text").evaluate("node => { node.scrollTop = 0; }")
    demo.script.go.set()
    wait_for_state(page, "done")
    assert page.locator("#sd-speculative .sd-text").evaluate("node => node.scrollTop") < 40


def test_charts_are_drawn(demo: Demo, page: Page) -> None:
    run(page)
    expect(page.locator("[data-chart=position] rect")).to_have_count(5)
    expect(page.locator("[data-chart=wrote] rect.f-spec")).to_have_count(6)
    expect(page.locator("[data-chart=costs]")).to_contain_text("28.7 ms → 1 token")
    assert "NaN" not in page.locator("#sd-charts").inner_html()
