"""Bad input: a clear sentence in the page, nothing lost, and the next run works."""

from __future__ import annotations

from collections.abc import Callable

import gradio as gr
import pytest
from playwright.sync_api import Browser, Page, expect

from specdemo.ui.controls import Controls
from tests.browser.conftest import Demo, run
from tests.ui.synthetic import Synthetic

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("", "The prompt is empty. Type a question, or take an example."),
        ("  \n ", "The prompt is empty. Type a question, or take an example."),
        ("\x01\x02\x7f", "This prompt becomes zero tokens: it holds only characters"),
        ("word " * 3000, "tokens and the context holds 2,048, the answer included. Shorten it."),
    ],
    ids=["empty", "blank", "control characters", "too long"],
)
def test_a_prompt_that_cannot_be_run(demo: Demo, page: Page, prompt: str, sentence: str) -> None:
    run(page)
    text = page.locator("#sd-baseline .sd-text").inner_text()
    run(page, prompt)
    expect(page.locator("[data-fig=verdict]")).to_contain_text(sentence)
    expect(page.locator("#sd-prompt textarea")).to_have_value(prompt)
    assert page.locator("#sd-baseline .sd-text").inner_text() == text
    run(page)
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")


def post(page: Page, name: str, value: object) -> None:
    """Run with one setting replaced behind the page's back, as anybody can who posts to the server himself."""
    page.evaluate(
        """([name, value, settings]) => {
            const fetched = window.fetch;
            window.fetch = (url, options) => {
                if (String(url).includes('queue/join') && options?.body) {
                    const body = JSON.parse(options.body);
                    if (body.data?.length === settings.length) {
                        body.data[settings.indexOf(name)] = value;
                        options = { ...options, body: JSON.stringify(body) };
                    }
                }
                return fetched(url, options);
            };
        }""",
        [name, value, sent()],
    )


def sent() -> list[str]:
    """What a run sends, in its order."""
    with gr.Blocks():
        controls = Controls()
    return ["prompt", "chat", "hub_token", *controls.read(tuple(controls.inputs))]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("gamma", 1e9, "Draft length γ is 1e+09; it must lie between 0 and 16."),
        ("gamma", 2.5, "Draft length γ is 2.5; it must be a whole number between 0 and 16."),
        ("temperature", -1, "Temperature is -1; it must lie between 0 and 2."),
        ("max_new_tokens", None, "Max new tokens is not a number."),
        ("top_p", "lots", "Top-p is not a number."),
    ],
)
def test_absurd_numbers_are_refused_in_the_page(
    demo: Demo, page: Page, name: str, value: object, sentence: str
) -> None:
    post(page, name, value)
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text(sentence)
    expect(page.locator("#sd-run")).to_be_enabled()


def test_an_unknown_draft_model_is_refused_and_a_known_one_runs(demo: Demo, page: Page) -> None:
    page.click(".sd-set")
    page.get_by_label("another model or head").check()
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("No draft model is named.")
    page.get_by_label("Draft model").fill("nobody/nothing")
    run(page)
    expect(page.locator("[data-fig=verdict]")).to_contain_text("No model is called nobody/nothing")
    expect(page.get_by_label("Draft model")).to_have_value("nobody/nothing")
    page.get_by_label("Draft model").fill("good-draft")
    run(page)
    expect(page.locator("[data-fig=same]")).to_have_text("Identical")
    expect(page.locator(".sd-pair")).to_contain_text("good-draft")


def test_gradios_own_toasts_speak_the_language_of_the_page(demo: Demo, chromium: Browser) -> None:
    context = chromium.new_context(locale="zh-CN")
    page = context.new_page()
    page.goto(demo.url)
    page.wait_for_selector(".sd-pair[data-state=ready]")
    page.route("**", lambda route: route.abort())  # or Gradio finds the server again, and loads the page anew
    page.click("#sd-run")
    toast = page.get_by_test_id("toast-body").last
    expect(toast).to_contain_text("与服务器的连接已断开。")
    expect(toast.get_by_role("button", name="关闭", exact=True)).to_be_visible()
    page.evaluate("sd.setLanguage('en')")
    expect(toast).to_contain_text("The connection to the server was lost.")
    context.close()


def test_the_pair_is_asked_for_where_nobody_told_of_it(served: Callable[..., Demo], chromium: Browser) -> None:
    script = Synthetic()
    script.loading.clear()
    demo = served(script.engine(), ("ngram", "same"), script)
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    # The stream ends before it has told anything, as behind a host that keeps it back.
    end = {"status": 200, "content_type": "text/event-stream", "body": 'data: {"msg":"close_stream"}\n\n'}
    page.route("**/queue/data*", lambda route: route.fulfill(**end))
    page.goto(demo.url)
    expect(page.locator(".sd-pair[data-state=loading]")).to_contain_text("37 of 93 MB")
    script.loading.set()
    expect(page.locator(".sd-pair[data-state=ready]")).to_contain_text("Scripted model")
    context.close()
