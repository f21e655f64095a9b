"""Pictures of the page's states, to be looked at: `python -m tests.browser.screenshots FOLDER [STATE ...]`.

Over the scripted engine; `--embedded` takes the finished page over the real model instead, as the README shows it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from specdemo.models.pair_options import EMBEDDED, PairSpec, default_drafter
from specdemo.ui.own_engine import real_engine
from tests.browser.conftest import CHROMIUM, SWITCHES, Demo, ask, run, serve, wait_for_state
from tests.ui.synthetic import Synthetic

DESKTOP, PHONE, TABLET, PROJECTOR = (1440, 900), (390, 844), (1024, 768), (1920, 1080)
PROMPT = "Write a Python function that removes duplicates from a list but keeps the order, and say how it works."
Act = Callable[[Page, Synthetic], None]
PATIENCE = 120_000  # milliseconds: a picture is worth waiting for


def finish(page: Page, script: Synthetic) -> None:
    """A run to its end."""
    page.click("#sd-run")
    wait_for_state(page, "done", "refused")


def halfway(page: Page, script: Synthetic) -> None:
    """A run held in its middle."""
    script.hold_at = 92
    page.click("#sd-run")
    assert script.held.wait(20)
    page.wait_for_function("() => document.querySelectorAll('#sd-baseline .t').length > 40")
    page.wait_for_timeout(600)  # the figures follow at most four times a second


def hover(page: Page, script: Synthetic) -> None:
    """A token that explains itself."""
    finish(page, script)
    page.hover("#sd-speculative .t.c >> nth=-2")


def views(page: Page, script: Synthetic) -> None:
    """Both switches on."""
    finish(page, script)
    for view in ("steps", "refused"):
        page.click(f"[data-view={view}]")


def looked(which: str = ".t.c >> nth=4", **script_has: object) -> Act:
    """A step under glass."""

    def act(page: Page, script: Synthetic) -> None:
        vars(script).update(script_has)
        finish(page, script)
        page.evaluate("document.querySelector('#sd-speculative .sd-text').scrollTop = 0")
        page.click(f"#sd-speculative {which}")
        page.wait_for_selector(".sd-glass h3:has-text('ms'), .sd-glass h3:has-text('毫')")
        page.mouse.move(0, 0)

    return act


def markdown(page: Page, script: Synthetic) -> None:
    """The answer with its Markdown set."""
    finish(page, script)
    page.click("[data-view=markdown]")


def slow(page: Page, script: Synthetic) -> None:
    """Slow motion: drafts that await their verdict."""
    page.click("[data-view=slow]")
    finish(page, script)
    page.wait_for_function("() => document.querySelectorAll('#sd-speculative .t[data-i]').length > 6")
    page.wait_for_selector(".sd-pending .t")


def settings(page: Page, script: Synthetic) -> None:
    """The settings, with a draft model chosen."""
    page.click(".sd-set")
    page.get_by_label("another model or head").check()
    page.get_by_label("Draft model").wait_for()


def present(page: Page, script: Synthetic) -> None:
    """A run in the presenter view, begun by key."""
    page.keyboard.press("Enter")
    wait_for_state(page, "done", "refused")


def chat(page: Page, script: Synthetic) -> None:
    """The second turn of a chat."""
    page.click(".sd-chatsw")
    for prompt in (PROMPT, "And if order does not matter?"):
        run(page, prompt)
        wait_for_state(page, "done")


def tour(at: int) -> Act:
    """A step of the tour, after a run."""

    def act(page: Page, script: Synthetic) -> None:
        finish(page, script)
        page.click("[data-head=tour]")
        for _ in range(at - 1):
            page.keyboard.press("ArrowRight")

    return act


def how(page: Page, script: Synthetic) -> None:
    """How it works, with a step of the last run."""
    finish(page, script)
    page.locator("[data-head=how]").click()
    page.wait_for_selector("[data-how=worked]:not([hidden])")


def replay(page: Page, script: Synthetic) -> None:
    """A finished run, again from its times."""
    finish(page, script)
    page.click("[data-act=replay]")
    page.wait_for_function("() => document.querySelectorAll('#sd-baseline .t').length > 20")
    page.wait_for_timeout(600)  # the figures follow at most four times a second


def opened(tab: str) -> Act:
    """A run to its end, and another tab below it."""

    def act(page: Page, script: Synthetic) -> None:
        finish(page, script)
        page.click(f"[data-tab={tab}]")
        for row in page.locator(".sd-runs tbody input").all()[:2] if tab == "runs" else ():
            row.check()

    return act


def empty(page: Page, script: Synthetic) -> None:
    """An empty prompt."""
    ask(page, "")
    wait_for_state(page, "refused")


def failed(page: Page, script: Synthetic) -> None:
    """A run that fails in its middle."""
    script.fails_at = 60
    finish(page, script)


def parted(gap_explains: bool) -> Act:
    """Texts that part, by rounding or by a fault."""

    def act(page: Page, script: Synthetic) -> None:
        script.parted = script.text.replace("any item in", "every item of").replace("constant time, so", "no time and")
        script.tie = gap_explains
        finish(page, script)

    return act


def slower(page: Page, script: Synthetic) -> None:
    """Drafts that do not pay."""
    script.agreement = 0.08
    finish(page, script)


def wait(page: Page, script: Synthetic) -> None:
    """Nothing done yet."""


STATES: dict[
    str, tuple[Act, tuple[int, int], str, str]
] = {  # what is done, the window, the link, the browser's language
    "idle": (wait, DESKTOP, "", "en-US"),
    "running": (halfway, DESKTOP, "", "en-US"),
    "light": (finish, DESKTOP, "", "en-US"),
    "dark": (halfway, DESKTOP, "?__theme=dark", "en-US"),
    "zh-CN": (finish, DESKTOP, "", "zh-CN"),
    "zh-TW": (finish, DESKTOP, "?__theme=dark", "zh-TW"),
    "phone": (finish, PHONE, "", "en-US"),
    "phone-zh": (finish, PHONE, "?__theme=dark", "zh-CN"),
    "tablet": (finish, TABLET, "", "en-US"),
    "projector": (finish, PROJECTOR, "", "en-US"),
    "tooltip": (hover, DESKTOP, "", "en-US"),
    "views": (views, DESKTOP, "", "en-US"),
    "glass": (looked(), DESKTOP, "", "en-US"),
    "glass-rejection": (looked(".t.c:has(i) >> nth=6"), DESKTOP, "?temperature=0.8&rule=rejection", "en-US"),
    "glass-block": (looked(".t.c:has(i) >> nth=6"), DESKTOP, "?__theme=dark&temperature=0.8&rule=block", "zh-CN"),
    "glass-shared": (looked(".t.c:has(i) >> nth=6"), DESKTOP, "?temperature=0.8", "en-US"),
    "glass-dark": (looked(), DESKTOP, "?__theme=dark", "en-US"),
    "glass-zh": (looked(), DESKTOP, "", "zh-CN"),
    "glass-phone": (looked(), PHONE, "", "en-US"),
    "markdown": (markdown, DESKTOP, "", "en-US"),
    "slow-motion": (slow, DESKTOP, "?__theme=dark", "en-US"),
    "settings": (settings, DESKTOP, "", "en-US"),
    "settings-dark": (settings, DESKTOP, "?__theme=dark", "en-US"),
    "refused": (empty, DESKTOP, "", "en-US"),
    "failed": (failed, DESKTOP, "", "en-US"),
    "refused-link": (wait, DESKTOP, "?gamma=99&prompt=Hello&temperature=0.5", "en-US"),
    "presenter": (present, PROJECTOR, "?view=presenter", "en-US"),
    "presenter-dark": (present, PROJECTOR, "?view=presenter&__theme=dark", "en-US"),
    "presenter-zh": (present, PROJECTOR, "?view=presenter", "zh-CN"),
    "chat": (chat, DESKTOP, "", "en-US"),
    "chat-phone": (chat, PHONE, "?__theme=dark", "zh-TW"),
    "tour": (tour(2), DESKTOP, "", "en-US"),
    "tour-phone": (tour(4), PHONE, "", "zh-CN"),
    "how": (how, DESKTOP, "", "en-US"),
    "how-phone": (how, PHONE, "?__theme=dark", "zh-CN"),
    "settings-phone": (settings, PHONE, "", "en-US"),
    "replay": (replay, DESKTOP, "", "en-US"),
    "tie": (parted(True), DESKTOP, "", "en-US"),
    "fault": (parted(False), DESKTOP, "", "en-US"),
    "slower": (slower, DESKTOP, "", "en-US"),
    "whatif": (opened("whatif"), DESKTOP, "", "en-US"),
    "cost": (opened("money"), DESKTOP, "", "en-US"),
    "runs": (opened("runs"), PHONE, "", "en-US"),
    "runs-zh": (opened("runs"), DESKTOP, "?__theme=dark", "zh-CN"),
}


def scripted(browser: Browser, folder: Path, names: list[str]) -> None:
    """The states over the scripted engine."""
    script = Synthetic()
    with served(demo_of(script)) as demo:
        for name, (act, size, link, language) in STATES.items():
            if names and name not in names:
                continue
            vars(script).update(vars(Synthetic(words=script.words)))
            with standing(browser, demo.url + link, size, language) as page:
                page.wait_for_selector(".sd-pair[data-state=ready]", state="attached")
                act(page, script)
                picture(page, folder, name, full=size == PHONE or act is how)
                script.go.set()
    if not names or "loading" in names:
        script = Synthetic()
        script.loading.clear()
        with served(demo_of(script)) as demo, standing(browser, demo.url, DESKTOP, "en-US") as page:
            page.click("#sd-run")
            wait_for_state(page, "loading")
            picture(page, folder, "loading")
            script.loading.set()
    if not names or "unavailable" in names:
        script = Synthetic(
            load_error="The model could not be fetched: the registry cannot be reached. Try again later."
        )
        with served(demo_of(script)) as demo, standing(browser, demo.url, DESKTOP, "en-US") as page:
            page.wait_for_selector(".sd-pair[data-state=failed]")
            picture(page, folder, "unavailable")


def embedded(browser: Browser, folder: Path) -> None:
    """The finished page over the embedded model, as it stands: its first prompt, its defaults."""
    with served(serve(real_engine(), PairSpec(drafter=default_drafter(EMBEDDED)), Synthetic())) as demo:
        for name, link in (("screenshot", ""), ("screenshot-dark", "?__theme=dark")):
            with standing(browser, demo.url + link, DESKTOP, "en-US") as page:
                page.wait_for_selector(".sd-pair[data-state=ready]", timeout=300_000)
                page.click("#sd-run")
                page.wait_for_selector(".sd-score[data-state=done]", timeout=300_000)
                picture(page, folder, name)


def demo_of(script: Synthetic) -> Iterator[Demo]:
    return serve(script.engine(), ("ngram", "same"), script)


@contextmanager
def served(demos: Iterator[Demo]) -> Iterator[Demo]:
    """A served page, closed afterwards."""
    try:
        yield next(demos)
    finally:
        next(demos, None)


@contextmanager
def standing(browser: Browser, url: str, size: tuple[int, int], language: str) -> Iterator[Page]:
    """The page in a browser of that size and language."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, locale=language)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector(".sd-chip", state="attached")
    yield page
    context.close()


def picture(page: Page, folder: Path, name: str, *, full: bool = False) -> None:
    """Once fonts are there and bars have moved."""
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(300)
    page.screenshot(path=folder / f"{name}.png", full_page=full)
    print(folder / f"{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("states", nargs="*", metavar="STATE", help="all, unless some are named")
    parser.add_argument("--embedded", action="store_true", help="the real model")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        if args.embedded:
            embedded(browser, args.folder)
        else:
            scripted(browser, args.folder, args.states)
        browser.close()


if __name__ == "__main__":
    main()
