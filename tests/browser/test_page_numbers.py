"""Charts, what-if, cost, runs and replay: every control below the panes, and what they say."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from specdemo import theory
from specdemo.metrics import LaneMetrics
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.race import Lane
from specdemo.theory import CostModel
from specdemo.ui.replay import ClosedDesk, read
from tests.browser.conftest import Demo, ask, run, serve_desk, wait_for_state
from tests.ui.synthetic import Synthetic

pytestmark = pytest.mark.browser

AROUND = ((0.0, 0.0, 0.0, 1.0), (0.05, 0.0, 0.0, 1.0), (0.3, 0.04, 0.02, 0.4), (1.0, 0.1, 0.1, 0.0))
MODELS = [CostModel(alpha, *rest) for alpha in (0.0, 0.3, 0.8, 1.0) for rest in AROUND]


def tab(page: Page, name: str) -> Locator:
    page.locator(f"[data-tab={name}]").click()
    panel = page.locator(f"[data-panel={name}]")
    expect(panel).to_be_visible()
    return panel


def lanes_of(demo: Demo) -> dict[Lane, LaneMetrics]:
    return {lane: LaneMetrics.of(one.step for one in demo.script.steps if one.lane is lane) for lane in Lane}


def test_the_scripts_cost_model_is_that_of_theory(demo: Demo, page: Page) -> None:
    read_model = "([model, gamma]) => ['tokens', 'cost', 'speedup'].map(name => sd.theory[name](model, gamma))"
    for model in MODELS:
        plain = {name: getattr(model, name) for name in ("alpha", "c", "slope", "o", "drafts")}
        for gamma in (0, 1, 4, 16):
            here = page.evaluate(read_model, [plain, gamma])
            assert here == pytest.approx([model.tokens(gamma), model.cost(gamma), model.speedup(gamma)])
        best, speedup = model.best(MAX_GAMMA)
        found = page.evaluate("model => sd.theory.best(model)", plain)
        assert found[1] == pytest.approx(speedup) and found[0] == best
    price = page.evaluate("sd.theory.millionTokens(2.5, 40)")
    assert price == pytest.approx(theory.cost_per_million_tokens(2.5, 40))


def test_charts_are_drawn_while_it_runs_and_when_it_is_done(demo: Demo, page: Page) -> None:
    expect(page.locator("[data-below=nocharts]")).to_be_visible()
    demo.script.hold_at = 90
    ask(page, "Go")
    expect(page.locator("[data-chart=map]")).to_contain_text("this run")
    expect(page.locator("[data-chart=time] p")).to_contain_text("own clocks at")
    demo.script.go.set()
    wait_for_state(page, "done")
    expect(page.locator("[data-chart=time] p")).to_contain_text("done at")
    lanes = lanes_of(demo)
    written = f"Speculative {lanes[Lane.SPECULATIVE].tokens}, Baseline {lanes[Lane.BASELINE].tokens}"
    expect(page.get_by_role("img", name=written)).to_be_visible()
    drawn = page.locator("[data-chart=time]").locator(".c-base, .c-spec")
    assert sum(path.get_attribute("d").count("H") for path in drawn.all()) == len(demo.script.steps) - len(Lane)
    expect(page.locator("[data-chart=position] rect")).to_have_count(5)
    expect(page.locator("[data-chart=position] .c-tick")).to_have_count(5)
    expect(page.locator("[data-chart=wrote] rect.f-spec")).to_have_count(6)
    expect(page.locator("[data-chart=costs]")).to_contain_text("28.7 ms → 1 token")
    assert "NaN" not in page.locator("#sd-charts").inner_html()
    measured = lanes[Lane.SPECULATIVE].tokens_per_second / lanes[Lane.BASELINE].tokens_per_second
    chart = page.locator("[data-chart=map]")
    expect(chart).to_contain_text(f"this run {measured:.2f}×")
    expect(chart).to_contain_text(re.compile(r"best γ \d+, \d\.\d\d×"))
    expect(chart.locator("p")).to_contain_text(f"α {lanes[Lane.SPECULATIVE].alpha:.2f}")
    expect(chart).to_contain_text("break-even")


def test_nothing_is_predicted_of_a_fault(demo: Demo, page: Page) -> None:
    demo.script.parted, demo.script.tie = demo.script.text.replace("function", "method", 1), False
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("a logit gap of 1.9, too wide for rounding.")
    expect(page.locator("[data-fig=speed]")).to_be_hidden()
    expect(page.locator(".sd-parting code").first).to_be_visible()  # without being asked
    expect(page.locator("[data-chart=map] p")).to_have_text("nothing measured to predict from")
    expect(tab(page, "money")).to_contain_text("No run to reckon with yet")


def press(slider: Locator, key: str, times: int = 1) -> None:
    slider.focus()
    for _ in range(times):
        slider.press(key)


def test_what_if_gives_the_textbooks_figures_by_keyboard(demo: Demo, page: Page) -> None:
    panel = tab(page, "whatif")
    alpha = page.get_by_role("slider", name="α: share of judged drafts")
    cost = page.get_by_role("slider", name="c: one drafted token")
    expect(page.get_by_role("slider", name="γ: draft length")).to_have_value("4")
    press(alpha, "Home")
    for steps, tokens in ((60, "2.31"), (10, "2.77"), (10, "3.36")):
        press(alpha, "ArrowRight", steps)
        expect(panel.locator("[data-out=tokens]")).to_have_text(tokens)
    press(cost, "Home")
    for c, speedup in ((0.05, 2.8), (0.1, 2.4)):
        press(cost, "ArrowRight", 10)  # of 0.005
        textbook = CostModel(0.8, c).speedup(4)
        expect(panel.locator("[data-out=speedup]")).to_have_text(f"{textbook:.2f}×")
        assert textbook == pytest.approx(speedup, abs=0.05)


def test_what_if_begins_with_the_run_and_comes_back_to_it(demo: Demo, page: Page) -> None:
    run(page)
    panel = tab(page, "whatif")
    said = panel.locator("[data-out=speedup]")
    measured = said.inner_text()
    expect(panel.locator("[data-out=formula]")).to_contain_text("measured")
    page.get_by_role("slider", name="γ: draft length").fill("0")
    expect(said).to_have_text("1.00×")
    page.get_by_role("checkbox", name=re.compile("Verification and the rest")).uncheck()
    expect(panel.locator("[data-out=formula]")).to_contain_text("as cheap as a plain step")
    page.get_by_role("slider", name="c: one drafted token").fill("1")
    expect(panel.locator("[data-out=best]")).to_have_text("none: no draft pays")
    page.get_by_role("button", name="Back to the last run").click()
    expect(said).to_have_text(measured)


def test_the_price_becomes_the_cost_of_a_million_tokens(demo: Demo, page: Page) -> None:
    run(page)
    panel = tab(page, "money")
    expect(panel).to_contain_text("batch 1")
    price = page.get_by_label("Price of the device by the hour")
    price.fill("3.6")
    lanes = lanes_of(demo)
    rate = lanes[Lane.BASELINE].end_to_end_tokens_per_second
    expect(panel.locator("[data-out=paid-baseline]")).to_have_text(f"{1000 / rate:.3g} a million tokens")
    expect(panel.locator("[data-out=saving-name]")).to_have_text("Saving")
    demo.script.agreement = 0.05
    run(page)
    expect(panel.locator("[data-out=saving-name]")).to_have_text("Extra cost")
    price.fill("-1")
    expect(price).to_have_attribute("aria-invalid", "true")
    expect(panel.locator("[data-out=bill]")).to_be_hidden()
    price.fill("5")
    page.reload()
    page.wait_for_selector(".sd-chip")
    tab(page, "money")
    expect(price).to_have_value("5")


def own_rows(page: Page) -> Locator:
    return page.locator(".sd-runs tbody").first.locator("tr").filter(has_text=re.compile(r"Run \d"))


def test_runs_are_listed_sorted_and_compared(demo: Demo, page: Page) -> None:
    run(page, "The first prompt")
    demo.script.agreement = 0.05
    run(page, "The second prompt")
    panel = tab(page, "runs")
    expect(own_rows(page)).to_have_count(2)
    expect(own_rows(page).first).to_contain_text("The second prompt")
    expect(own_rows(page).first).to_contain_text("Scripted model · ngram")
    rate = lanes_of(demo)[Lane.SPECULATIVE].draft_acceptance_rate
    cells = own_rows(page).first.locator("td").all_text_contents()
    assert cells[4:7] == ["5", "shared noise", "Greedy"] and cells[8] == f"{round(100 * rate)} %"
    panel.get_by_role("button", name="Speedup").click()
    expect(own_rows(page).first).to_contain_text("The first prompt")
    expect(panel.locator("th[aria-sort=descending]")).to_have_text("Speedup")
    panel.get_by_role("button", name="Speedup").press("Enter")
    expect(own_rows(page).first).to_contain_text("The second prompt")
    expect(panel.locator(".sd-versus")).to_be_hidden()
    for row in own_rows(page).all():
        row.get_by_role("checkbox").check()
    versus = panel.locator(".sd-versus")
    expect(versus).to_contain_text("The first prompt")
    expect(versus).to_contain_text("Scripted processor ×2")
    panel.get_by_role("checkbox", checked=True).first.uncheck()
    expect(versus).to_be_hidden()


def kept(page: Page, press: Callable[[], None]) -> tuple[str, str]:
    """The name and the text of the file that a press gives."""
    with page.expect_download() as download:
        press()
    return download.value.suggested_filename, Path(download.value.path()).read_text("utf-8")


def test_a_run_is_kept_as_json_csv_and_markdown(demo: Demo, page: Page) -> None:
    run(page)
    acts = page.locator("[data-below=acts]")
    name, text = kept(page, lambda: acts.get_by_role("button", name="JSON").click())
    steps = [one.step for one in demo.script.steps if one.lane is Lane.SPECULATIVE]
    assert re.fullmatch(r"specdemo-run-\d+\.json", name)
    assert read(text).lanes[Lane.SPECULATIVE].steps == steps
    _, text = kept(page, lambda: acts.get_by_role("button", name="CSV").click())
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(demo.script.steps)
    page.locator("[data-head=language]").select_option("zh-CN")
    expect(page.locator("#sd-run")).to_have_text("运行")
    _, text = kept(page, lambda: acts.get_by_role("button", name="Markdown").click())
    assert "速度为基线的" in text and "Scripted processor" in text


def test_a_kept_run_is_loaded_and_replayed(demo: Demo, page: Page, open_page: Callable[..., Page]) -> None:
    demo.script.text = "Two short words <b>and</b> ${more}."
    run(page, "What is kept?")
    _, text = kept(page, lambda: page.locator("[data-below=acts]").get_by_role("button", name="JSON").click())
    shown = page.locator("#sd-speculative .sd-text").inner_text()
    other = open_page(demo.url)
    tab(other, "runs")
    other.set_input_files("#sd-load", {"name": "mine.json", "mimeType": "application/json", "buffer": text.encode()})
    row = other.locator(".sd-runs tr", has_text="mine.json")
    expect(row).to_contain_text("What is kept?")
    row.get_by_role("button", name="Replay").click()
    wait_for_state(other, "done")
    expect(other.locator("[data-fig=verdict]")).to_have_text(
        "Replay, true speed: recorded on Scripted processor ×2, May 14, 2026. Nothing is computed now."
    )
    expect(other.locator("#sd-speculative .sd-text")).to_have_text(shown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "The file is not JSON"),
        ("{}", "the key is missing"),
        ('{"baseline": "<img src=x onerror=alert(1)>", "speculative": 1}', "At "),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_a_sentence(demo: Demo, page: Page, text: str, said: str) -> None:
    tab(page, "runs")
    before = page.locator(".sd-runs tbody tr").count()
    page.set_input_files("#sd-load", {"name": "x.json", "mimeType": "application/json", "buffer": text.encode()})
    told = page.locator("[data-below=told]")
    expect(told).to_contain_text("Cannot load this file")
    expect(told).to_contain_text(said)
    assert page.locator(".sd-runs tbody tr").count() == before
    run(page)
    expect(told).to_be_hidden()


def test_a_file_too_large_is_not_sent(demo: Demo, page: Page, tmp_path: Path) -> None:
    tab(page, "runs")
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(9 << 20)
    page.set_input_files("#sd-load", tmp_path / "x.json")
    expect(page.locator("[data-below=told]")).to_contain_text("it has 9 MiB")


def test_a_replay_shows_the_same_run_and_says_what_it_is(demo: Demo, page: Page) -> None:
    demo.script.text = "A short answer."
    run(page, "Once")
    verdict = page.locator("[data-fig=verdict]").inner_text()
    figures = page.locator(".sd-figs").inner_text()
    page.get_by_role("button", name="Replay this run").click()
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Replay, true speed")
    wait_for_state(page, "done")
    expect(page.locator("[data-fig=more]")).to_contain_text(verdict.split(":")[0])
    expect(page.locator(".sd-figs")).to_have_text(re.compile(re.escape(figures.split()[1])))
    expect(page.locator(".sd-score")).to_have_class(re.compile("sd-plain"))
    tab(page, "runs")
    expect(own_rows(page)).to_have_count(1)


def test_a_replay_changes_its_speed_stops_and_keeps_a_second_run_out(
    demo: Demo, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.ui.synthetic.PLAIN", 3.0)  # seconds of a step: it plays for minutes
    run(page, "Once")
    page.get_by_role("radio", name="quarter speed").check(force=True)
    page.get_by_role("button", name="Replay this run").click()
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Replay, quarter speed")
    expect(page.locator("#sd-run")).to_be_disabled()
    page.get_by_role("radio", name="half speed").check(force=True)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Replay, half speed")
    steps = len(demo.script.steps)
    page.locator("#sd-prompt textarea").press("Enter")
    page.click("#sd-stop")
    wait_for_state(page, "stopped")
    expect(page.locator("#sd-run")).to_be_enabled()
    assert len(demo.script.steps) == steps
    run(page, "Again")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("× faster:")


def test_a_step_of_a_replay_can_be_looked_at(demo: Demo, page: Page) -> None:
    demo.script.text = "A short answer."
    run(page)
    page.get_by_role("button", name="Replay this run").click()
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Replay")
    wait_for_state(page, "done")
    page.locator("#sd-speculative .t >> nth=1").click()
    expect(page.locator("[data-glass=where]")).to_contain_text("2")


def test_tabs_go_by_arrow_keys(demo: Demo, page: Page) -> None:
    page.get_by_role("tab", name="Charts").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="What if")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="What if")).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Runs")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Charts")).to_be_focused()


def test_a_run_that_is_gone_is_told(demo: Demo, page: Page) -> None:
    run(page)
    demo.built.runs._visitors.clear()
    page.get_by_role("button", name="Replay this run").click()
    expect(page.locator("[data-fig=verdict]")).to_contain_text("no longer kept")


def test_the_last_runs_alone_stay_in_the_table(demo: Demo, page: Page) -> None:
    demo.script.text = "Short."
    for i in range(13):
        run(page, f"Prompt number {i}")
    tab(page, "runs")
    expect(own_rows(page)).to_have_count(12)
    expect(own_rows(page).first).to_contain_text("Run 13")
    expect(own_rows(page).last).to_contain_text("Run 2")


@pytest.fixture(scope="module")
def closed_demo() -> Iterator[Demo]:
    yield from serve_desk(ClosedDesk(), Synthetic())


def test_a_page_without_a_model_replays_what_was_recorded(closed_demo: Demo, open_page: Callable[..., Page]) -> None:
    page = open_page(closed_demo.url)
    recorded = closed_demo.built.runs.recorded
    expect(page.locator(".sd-pair")).to_contain_text("Replay only, no model")
    expect(page.locator(".sd-chip")).to_have_count(len(recorded))
    page.click("#sd-run")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("Replay, true speed")
    page.wait_for_function("() => document.querySelectorAll('#sd-speculative .t').length > 3")
    page.click("#sd-stop")
    wait_for_state(page, "stopped")
    ask(page, "Something that nobody recorded")
    expect(page.locator("[data-fig=verdict]")).to_contain_text("only replays recorded runs")
    tab(page, "runs")
    expect(page.locator(".sd-runs tbody tr")).to_have_count(len(recorded))
    name, text = kept(page, lambda: page.locator(".sd-runs tbody").get_by_role("button", name="JSON").first.click())
    assert name.endswith(".json") and json.loads(text)["speculative"]["environment"]["date"]
