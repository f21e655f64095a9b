"""The Lab in a browser: opened, run, cancelled, gone on with, kept as files and loaded again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from specdemo.lab.result import read
from tests.browser.conftest import PATIENCE, Demo
from tests.browser.test_page_accessible import violations
from tests.ui.lab_world import Held, answered, world_engine
from tests.ui.synthetic import Synthetic

pytestmark = pytest.mark.browser


def test_an_experiment_is_run_cancelled_resumed_and_kept(
    served: Callable[..., Demo], open_page: Callable[..., Page], tmp_path: Path
) -> None:
    world = Held(hold_at=60)
    demo = served(world_engine(world), ("ngram", "same"), Synthetic())
    page = open_page(demo.url)
    page.wait_for_selector(".sd-pair[data-state=ready]")
    page.get_by_role("button", name="Lab", exact=True).click()
    expect(page.locator("#sd-prompt")).to_be_hidden()
    expect(page.locator("[data-lab=question]")).to_contain_text("on each kind of prompt")
    page.locator("#sd-lab-gammas").fill("99")
    expect(page.locator("[data-lab=plan]")).to_contain_text("take a whole number from 0 to 16")
    page.locator("#sd-lab-gammas").fill("2")
    page.locator("#sd-lab-max_new_tokens").fill("8")
    _brings_prompts(page, tmp_path / "mine.jsonl")
    expect(page.locator("[data-lab=plan]")).to_have_text("6 rows")
    assert violations(page) == []
    page.locator("[data-lab=run]").click()
    assert world.held.wait(PATIENCE / 1000)
    expect(page.locator("#sd-run")).to_be_disabled()
    page.locator("[data-lab=cancel]").click()
    (worker,) = demo.built._workers.values()
    assert worker.stop.wait(PATIENCE / 1000)
    world.go.set()
    expect(page.locator("[data-lab=told]")).to_contain_text("Cancelled.")
    progress = page.locator("[data-lab=progress]")
    expect(progress).to_have_text(re.compile(r"^[1-5] of 6 rows$"))
    page.locator("[data-lab=resume]").click()
    expect(page.locator("[data-lab=told]")).to_contain_text("Done.")
    expect(progress).to_have_text("6 of 6 rows")
    expect(page.locator("[data-lab=tabled] tbody tr")).to_have_count(7)
    expect(page.locator(".sd-lab-chart svg")).to_have_count(1)
    assert violations(page) == []
    kept = _downloads(page, tmp_path)
    _loads_again(page, demo, kept["json"], tmp_path)
    _votes(page, tmp_path / "answers.json")


def _brings_prompts(page: Page, file: Path) -> None:
    """First what is none; then two kinds, kept while another experiment is looked at, and taken away again."""
    choose, plan = page.locator("#sd-lab-prompts"), page.locator("[data-lab=plan]")
    file.write_text('{"prompt": "<b>x</b>"}\n{"prompt": ""}', "utf-8")
    choose.set_input_files(file)
    expect(page.locator("[data-lab=told]")).to_contain_text("mine.jsonl, line 2: `prompt` should be a text")
    lines = [json.dumps({"prompt": f"<b>{n}</b>", "kind": "<i>one</i>" if n else "two"}) for n in range(4)]
    file.write_text("\n".join(lines), "utf-8")
    choose.set_input_files(file)
    place = page.locator("[data-field=prompts]")
    expect(place).to_contain_text("mine.jsonl, 4 prompts")
    expect(choose).to_be_focused()
    expect(plan).to_have_text("4 rows")
    assert page.locator("#sd-lab-gammas").input_value() == "2"
    page.locator("[data-field=kinds] label", has_text="<i>one</i>").click()
    expect(plan).to_have_text("3 rows")
    page.get_by_role("button", name="Temperature sweep").click()
    expect(place).to_contain_text("mine.jsonl, 4 prompts")
    expect(page.locator("#sd-lab-per_kind")).to_have_value("4")
    page.get_by_role("button", name="Kinds of prompts").click()
    page.locator("#sd-lab-gammas").fill("2")
    page.locator("#sd-lab-max_new_tokens").fill("8")
    assert violations(page) == []
    place.get_by_role("button", name="Remove").click()
    expect(page.locator("#sd-lab-per_kind")).to_have_value("1")


def _downloads(page: Page, folder: Path) -> dict[str, Path]:
    files = {}
    for kind in ("json", "csv", "md"):
        with page.expect_download() as coming:
            page.locator(f"[data-keep={kind}]").click()
        files[kind] = folder / f"kept.{kind}"
        coming.value.save_as(files[kind])
    assert read(files["json"]).done and files["csv"].read_text("utf-8").count("\n") == 7
    assert "| chat " in files["md"].read_text("utf-8")
    return files


def _loads_again(page: Page, demo: Demo, file: Path, folder: Path) -> None:
    """Without its last row, in another language; then what is no result."""
    document = json.loads(file.read_text("utf-8"))
    part = folder / "part.json"
    part.write_text(json.dumps(document | {"rows": document["rows"][:-1]}), "utf-8")
    page.locator("[data-lab=file]").set_input_files(part)
    expect(page.locator("[data-lab=told]")).to_contain_text("Loaded")
    expect(page.locator("[data-lab=progress]")).to_have_text("5 of 6 rows")
    expect(page.locator("#sd-lab-gammas")).to_have_value("2")
    page.locator("[data-lab=resume]").click()
    expect(page.locator("[data-lab=told]")).to_contain_text("Done.")
    page.locator("[data-head=language]").select_option("zh-CN")
    part.write_text("<img src=x onerror=alert(1)>", "utf-8")
    page.locator("[data-lab=file]").set_input_files(part)
    expect(page.locator("[data-lab=told]")).to_contain_text("无法载入此文件")


def _votes(page: Page, file: Path) -> None:
    """By keyboard, blindly, on what differs; then which was which."""
    texts = ("a cat\nsat", "a dog"), ("<b>same</b>", "<b>same</b>"), ("one", "<i>two</i>")
    file.write_text(answered(*texts).model_dump_json(), "utf-8")
    page.locator("[data-head=language]").select_option("en")
    page.locator("[data-lab=file]").set_input_files(file)
    vote = page.locator("[data-lab=vote]")
    expect(vote).to_contain_text("2 of 3 pairs of answers differ.")
    vote.locator("[data-vote=begin]").press("Enter")
    for at, pair in ((1, texts[0]), (2, texts[2])):
        which = vote.locator("[data-vote=which]")
        expect(which).to_contain_text(f"Pair {at} of 2: chat")
        expect(which).to_be_focused()
        assert {vote.locator(f"[data-vote={side}]").text_content() for side in ("left", "right")} == set(pair)
        for word in ("plain", "drafted"):
            assert word not in vote.locator("[data-vote=sheet]").evaluate("node => node.outerHTML").lower()
        assert violations(page) == []
        page.keyboard.press("Tab")
        expect(vote.locator("[data-choice=left]")).to_be_focused()
        page.keyboard.press("Enter")
    expect(vote.locator("[data-vote=tally]")).to_be_focused()
    expect(vote.locator("[data-vote=tally]")).to_contain_text("p = ")
    expect(vote.locator("tbody tr")).to_have_count(2)
    expect(page.locator("[data-lab=findings]")).to_contain_text("Blind vote:")
    assert violations(page) == []
    page.get_by_role("button", name="Log of runs").click()
    expect(page.locator("[data-lab=log]")).to_contain_text("This page keeps no log.")
    expect(page.locator("[data-lab=form]")).to_be_hidden()
    assert violations(page) == []
    page.get_by_role("button", name="Quality").click()
    page.locator("[data-head=language]").select_option("zh-TW")
    expect(vote).to_contain_text("每一對都已評過")
    page.keyboard.press("Escape")
    expect(page.locator("#sd-prompt")).to_be_visible()
