"""Both panes stream, and show what the engine gave: token by token, mark by mark, letter by letter."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from specdemo.metrics import LaneMetrics
from specdemo.race import Lane
from specdemo.ui import figures
from tests.browser.conftest import Demo, ask, run, wait_for_state
from tests.ui.synthetic import END, VERIFY

pytestmark = pytest.mark.browser

MARKS = {"target": "n", "accepted": "a", "corrected": "c", "bonus": "b"}
SHOWN = """lane => [...document.querySelectorAll(`#sd-${lane} .sd-text .t`)]
    .map(node => [Number(node.dataset.id), node.classList[1], node.textContent])"""
LARGEST = """() => {
    const sizes = [...document.querySelectorAll(".sd-page *")].filter((node) => node.getClientRects().length)
        .map((node) => parseFloat(getComputedStyle(node).fontSize));
    return Math.max(...sizes);
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
    lanes = {lane: LaneMetrics.of(one.step for one in demo.script.steps if one.lane is lane) for lane in Lane}
    baseline, speculative = lanes[Lane.BASELINE], lanes[Lane.SPECULATIVE]
    for lane, metrics in lanes.items():
        expect(page.locator(f"[data-fig={lane}]")).to_have_text(figures.rate(metrics.tokens_per_second))
        expect(page.locator(f"#sd-{lane} [data-live=rate]")).to_have_text(figures.rate(metrics.tokens_per_second))
    expect(page.locator("[data-fig=length]")).to_have_text(f"{speculative.mean_acceptance_length:.2f}")
    speedup = figures.times(speculative.tokens_per_second / baseline.tokens_per_second)
    expect(page.locator("[data-fig=speed]")).to_have_text(f"{speedup}×")
    whole = figures.times(speculative.end_to_end_tokens_per_second / baseline.end_to_end_tokens_per_second)
    expect(page.locator("[data-fig=speed-note]")).to_have_text(f"decoding; {whole}× end to end, prompt included")
    produced = f"{speculative.tokens_per_target_pass:.1f} tokens"
    expect(page.locator("[data-fig=verdict]")).to_contain_text(
        f"{speedup}× faster: each verification ({figures.milliseconds(VERIFY)} ms) produced {produced}"
    )
    assert page.evaluate(LARGEST) == page.evaluate(
        "() => parseFloat(getComputedStyle(document.querySelector('.sd-speed')).fontSize)"
    )
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
    expect(parting.first).to_be_hidden()
    page.get_by_text("How both go on").click()
    expect(parting.last).to_be_visible()
    expect(page.locator(".sd-text .sd-fork")).to_have_text(["parts here", "parts here"])
    page.get_by_role("switch", name="Markdown").click()
    expect(page.locator(".sd-rendered .sd-fork")).to_have_count(2)
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
    demo.script.text, demo.script.bits = "A second answer.", True
    run(page)
    assert page.evaluate(TEXT, Lane.BASELINE) == "A second answer." + END
    n = len(emitted(demo, Lane.BASELINE))
    expect(page.locator(".sd-same dd")).to_contain_text(f"Bit-identical {n} of {n} tokens")
