"""How far is the page behind its source? `python -m tests.browser.lag`: 512 tokens a lane at 100 tokens/s each.

A benchmark, never a test: it prints when the page is first painted and says that its model still loads, the lag from a
Step to its token on the screen, frames a second and bytes sent.
"""

from __future__ import annotations

import heapq
import statistics
import time
from collections.abc import Iterator

from playwright.sync_api import sync_playwright

from specdemo.decoding.steps import Step
from specdemo.race import Lane, LaneStep, Request
from tests.browser.conftest import CHROMIUM, SWITCHES, serve, wait_for_state
from tests.ui.synthetic import Synthetic

TOKENS, RATE = 512, 100
STANDS = """(() => {
    const look = () => {
        if (document.querySelector("[data-head=pair]")?.textContent) window.stands = performance.now();
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""
PAINTED = "() => window.stands && [performance.getEntriesByName('first-contentful-paint')[0].startTime, window.stands]"
WATCH = """() => {
    window.seen = {}; window.frames = 0;
    const now = () => performance.timeOrigin + performance.now();
    for (const lane of ["baseline", "speculative"]) {
        const times = window.seen[lane] = [];
        const text = document.querySelector(`#sd-${lane} .sd-text`);
        new MutationObserver(() => requestAnimationFrame(() => {
            const count = text.querySelectorAll(".t").length;
            while (times.length < count) times.push(now());
        })).observe(text, { childList: true, subtree: true });
    }
    const frame = () => { window.frames += 1; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""


class Paced(Synthetic):
    """The script at so many tokens a second of real time in each lane; sent: when each token left.

    A race orders its lanes by their own clocks, in which the speculative one writes more tokens a second: waiting for
    that one would hold the baseline back, and let most of it go in one burst at the end. Here the lanes take turns by
    when their next step is due.
    """

    def race(self, request: Request) -> Iterator[LaneStep]:
        self.sent: dict[Lane, list[float]] = {lane: [] for lane in Lane}
        start = time.time()
        lanes = (
            self._due(Lane.BASELINE, self._baseline(request)),
            self._due(Lane.SPECULATIVE, self._speculative(request)),
        )
        for due, one in heapq.merge(*lanes, key=lambda next_one: next_one[0]):
            time.sleep(max(0.0, start + due - time.time()))
            self.sent[one.lane] += [1000 * time.time()] * len(one.step.tokens)
            yield one

    def _due(self, lane: Lane, steps: Iterator[Step]) -> Iterator[tuple[float, LaneStep]]:
        """A lane's steps, each with the second in which it leaves."""
        tokens = 0
        for step in steps:
            tokens += len(step.tokens)
            yield tokens / RATE, LaneStep(lane, step)


def main() -> None:
    script = Paced(text="word " * 600)
    script.loading.clear()
    sizes: list[int] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        for demo in serve(script.engine(), ("ngram", "same"), script):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            client = page.context.new_cdp_session(page)
            client.send("Network.enable")
            client.on("Network.dataReceived", lambda event: sizes.append(event["dataLength"]))
            page.add_init_script(STANDS)
            page.goto(demo.url)
            page.wait_for_selector(".sd-chip")
            painted, stands = page.wait_for_function(PAINTED).json_value()
            print(f"first paint after {painted:.0f} ms, the state of loading after {stands:.0f} ms")
            script.loading.set()
            page.wait_for_selector(".sd-pair[data-state=ready]")
            page.click(".sd-set")
            limit = page.locator("#sd-set-max_new_tokens input[type=number]")
            limit.fill(str(TOKENS))
            limit.press("Tab")
            page.locator(".sidebar .toggle-button").click()
            page.wait_for_timeout(1000)
            page.evaluate(WATCH)
            sizes.clear()
            started = time.time()
            page.click("#sd-run")
            wait_for_state(page, "done")
            seconds = time.time() - started
            page.wait_for_timeout(300)
            seen, frames = page.evaluate("[window.seen, window.frames]")
            for lane in Lane:
                lags = sorted(at - sent for at, sent in zip(seen[lane], script.sent[lane], strict=True))
                p50, p95 = statistics.median(lags), lags[int(0.95 * len(lags))]
                last = seen[lane][-1] - script.sent[lane][-1]
                print(f"{lane}: lag p50 {p50:.0f} ms, p95 {p95:.0f} ms, last {last:.0f} ms")
            print(f"{frames / seconds:.0f} frames/s, {sum(sizes) / 1000:.0f} kB sent in {seconds:.1f} s")
        browser.close()


if __name__ == "__main__":
    main()
