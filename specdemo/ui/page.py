"""Builds the page and wires it: what is pressed, what runs, what is shown. Everything it shows comes from a Show.

One generator drives all outputs of a run. Page events are private and leave no history.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import gradio as gr

from specdemo.examples import load_examples
from specdemo.models.pair_options import AUTO, EMBEDDED, NGRAM
from specdemo.race import Lane, Request
from specdemo.recording import RaceRecord
from specdemo.remote.options import Servers
from specdemo.trace_files import TraceFileRefused
from specdemo.ui import conversation, glass, how, scoreboard
from specdemo.ui.api import Api
from specdemo.ui.changes import send_changes
from specdemo.ui.controls import Controls, request, summary
from specdemo.ui.desk import Desk, Loaded
from specdemo.ui.doors import Doors
from specdemo.ui.engine import AS_TARGET
from specdemo.ui.examples import chips, settings_with
from specdemo.ui.gone import listen
from specdemo.ui.kept_answers import KeptAnswers
from specdemo.ui.lab import Lab
from specdemo.ui.links import read_link, write_link
from specdemo.ui.orders import order, readable
from specdemo.ui.panes import pane
from specdemo.ui.parts import Part, encode, head
from specdemo.ui.replay import SPEEDS, ClosedDesk, Player, read, recorded_runs
from specdemo.ui.report import FILES, row
from specdemo.ui.runs import RUNS_KEPT, Run, Runs
from specdemo.ui.scrape import Counts, Scrape
from specdemo.ui.settings_file import file_of
from specdemo.ui.show import Show
from specdemo.ui.sign_in import SignIn
from specdemo.ui.spared import spare, spare_hops, spare_looks, spare_status
from specdemo.ui.text import DEFAULT, say
from specdemo.ui.text.below import recognise
from specdemo.ui.theme import theme
from specdemo.ui.visitors import OWN, Rules
from specdemo.ui.worker import Order, Refused, Worker, at_work

DRAIN_SECONDS = 0.05
WAIT_SECONDS = 0.4  # the same for a run that waits: a hundred of them may, and the one that runs needs the CPU
HEARTBEAT_SECONDS = 5.0  # between two values that are the same
STOP_SECONDS = 5.0  # how long Stop waits for the last step to reach the page
REPLAYS_AT_ONCE = 8
EVENTS_QUEUED = 64  # by Gradio, before they are looked at; the line in which runs wait is the desk's
SESSIONS_KEPT = 1000  # by Gradio, of labels in their language: what is forgotten is told in English again
HEARD = ("language", "retry", "ask", "watch")  # from the header
THREADS = 48  # beside one for each run that waits
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def launch_options(rules: Rules = OWN, counts: Counts | None = None) -> dict[str, Any]:
    """What `launch` needs beside an address: look, scripts, and nothing kept or shared. counts: for /metrics."""
    return {
        "max_threads": THREADS + rules.waiting,
        "app_kwargs": {
            "middleware": [(Doors, (), {}), (KeptAnswers, (), {}), *([(Scrape, (counts,), {})] if counts else [])]
        },
        "enable_monitoring": False,
        "state_session_capacity": SESSIONS_KEPT,
        "mcp_server": importlib.util.find_spec("mcp") is not None,
        "theme": theme(),
        "head": head(),
        "footer_links": [],
        "run_history": False,
        "share": False,
        "ssr_mode": False,
        "show_error": True,
    }


def build_page(
    desk: Desk | ClosedDesk,
    drafter: str = NGRAM,
    precision: str = AS_TARGET,
    target_precision: str = AUTO,
    target: str = EMBEDDED,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> gr.Blocks:
    """The whole page over a desk (its `open` loads the pair), or one that only replays what was recorded.

    drafter, precisions, settings: what Settings begin with. target: what they offer drafters for. Raises SettingRefused
    where no run could have these.
    """
    return Page(desk, drafter, precision, target_precision, target, settings).blocks


class Page:
    """The page's components and what happens on them."""

    def __init__(
        self,
        desk: Desk | ClosedDesk,
        drafter: str = NGRAM,
        precision: str = AS_TARGET,
        target_precision: str = AUTO,
        target: str = EMBEDDED,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.desk = desk
        self.runs = Runs(recorded_runs())
        self.examples = load_examples()
        if desk.engine is None:
            self.examples = [one for one in self.examples if self._recorded(one["prompt"])] or self.examples
        self._going: dict[str, Iterator[tuple[Any, ...]]] = {}  # by session: its run or replay, from the first value
        self._workers: dict[str, Worker | Player] = {}  # by session: what Stop of that page stops
        spare()
        send_changes()
        with gr.Blocks(title=say(DEFAULT, "title"), fill_width=True, analytics_enabled=False) as self.blocks:
            self._lay_out(settings, drafter, precision, target_precision, target)
            self._wire()
            Api(desk, self.controls.choices, self.fresh, self.controls.theirs).publish()
            spare_status(self.blocks, self.stop)
        self.blocks.queue(max_size=EVENTS_QUEUED, api_open=False)
        spare_hops(self.blocks, (Part,))
        spare_looks(self.blocks)
        listen(self.blocks._queue)

    def _lay_out(self, settings: Mapping[str, Any], *begin_with: str) -> None:
        with gr.Sidebar(position="right", open=False, width=380, elem_id="sd-settings"):
            self.settings = Part("settings", elem_classes=["sd-part"])
            tokens = self.desk.engine is not None and not self.desk.rules.public
            self.controls = Controls(*begin_with, tokens=tokens, values=settings, **self._servers())
        with gr.Column(elem_classes=["sd-page"]):
            self.header = Part("header", events=HEARD, elem_id="sd-header", elem_classes=["sd-part"])
            self.sign_in = SignIn() if self.desk.rules.login else None
            self.how = how.how()
            self.lab = Lab(self.desk, self.controls, self._alone, self._workers)
            with gr.Row(elem_classes=["sd-ask"]):
                self.prompt = gr.Textbox(
                    self.examples[0]["prompt"],
                    show_label=False,
                    container=False,
                    lines=1,
                    max_lines=3,
                    label=say(DEFAULT, "prompt"),
                    placeholder=say(DEFAULT, "prompt.placeholder"),
                    elem_classes=["sd-box"],
                    elem_id="sd-prompt",
                )
                self.run = gr.Button(say(DEFAULT, "run"), variant="primary", elem_id="sd-run", elem_classes=["sd-btn"])
                self.stop = gr.Button(say(DEFAULT, "stop"), elem_id="sd-stop", elem_classes=["sd-btn"])
            self.fresh = self.controls.read(tuple(block.value for block in self.controls.inputs))
            request(self.fresh, self.controls.choices)
            self.settings.value = self._kept(self.fresh)
            self.chips = chips(self.examples, encode(summary(self.fresh, self.controls.theirs)))
            self.chat = conversation.chat()
            self.board = scoreboard.scoreboard()
            with gr.Row(elem_classes=["sd-lanes"]):
                self.panes = {lane: pane(lane) for lane in Lane}
            Part(
                "legend",
                fills={"clocks": self._clocks()},
                elem_id="sd-legend",
                elem_classes=["sd-part"],
            )
            self.glass = glass.glass()
            recorded = encode({"rows": [row(run, "recorded") for run in self.runs.recorded], "kept": RUNS_KEPT})
            self.below = Part(
                "below",
                recorded,
                events=("replay", "pace", "fetch", "bring"),
                elem_id="sd-charts",
                elem_classes=["sd-part"],
            )

    def _clocks(self) -> str:
        """The note on how the lanes share time, until a run says it of itself."""
        if not self._servers():
            return "clocks"
        return "remote.clocks" if isinstance(self.desk.spec, Servers) else "remote.mixed.clocks"

    def _servers(self) -> dict[str, Any]:
        """What Settings know of lanes on servers."""
        engine = self.desk.engine
        if engine is None or not engine.remote:
            return {}
        return {"remote": True, "theirs": engine.theirs, "servers": engine.offered(self.desk.spec)}

    def _wire(self) -> None:
        outputs = [*self.panes.values(), self.board, self.header]
        inputs = [self.prompt, self.chat, self.controls.token, *self.controls.inputs]
        running = gr.on(
            [self.run.click, self.prompt.submit],
            self.race,
            inputs,
            [*outputs, self.chat],
            concurrency_limit=None,
            trigger_mode="once",
            **PRIVATE,
        )
        replaying = self.below.replay(
            self.replay,
            None,
            outputs,
            concurrency_limit=REPLAYS_AT_ONCE,
            concurrency_id="replay",
            trigger_mode="once",
            **PRIVATE,
        )
        self.below.pace(self.pace, None, None, queue=False, **PRIVATE)
        self.below.fetch(self.fetch, None, self.below, queue=False, **PRIVATE)
        self.below.bring(self.bring, None, self.below, queue=False, **PRIVATE)
        # The Event stops the model and lets the last figures through; `cancels` takes back a run that still queues.
        self.stop.click(self.halt, None, None, queue=False, **PRIVATE).then(
            None, None, None, cancels=[running, replaying], **PRIVATE
        ).then(None, None, None, js="() => sd.emit('halted')", **PRIVATE)
        self.lab.wire(self.header)
        if self.sign_in is not None:
            self.sign_in.wire(self.blocks, self.header, self.settings, PRIVATE)
        # Not through the queue: what else is asked for in the moment in which its stream closes may be lost (Gradio's).
        self.blocks.load(self.stands, None, self.header, queue=False, **PRIVATE)
        self.header.watch(self.watch, None, self.header, concurrency_limit=None, **PRIVATE)
        self.header.ask(self.stands, None, self.header, queue=False, **PRIVATE)
        self.header.retry(self.retry, None, self.header, concurrency_limit=None, **PRIVATE)
        words = [self.prompt, self.run, self.stop, *self.controls.labelled]
        self.header.language(self.relabel, None, words, queue=False, **PRIVATE)
        # What the browser speaks comes as the value of some part: a page's load has no data of its own.
        self.blocks.load(self.greet, self.settings, words, js="() => [sd.lang]", queue=False, **PRIVATE)
        self.board.attempt(self.attempt, None, self.controls.inputs, queue=False, **PRIVATE).then(
            None, None, None, js="() => document.getElementById('sd-run').click()", **PRIVATE
        )
        self.glass.look(self.look, None, self.glass, queue=False, trigger_mode="multiple", **PRIVATE)
        self.how.work(self.work, None, self.how, queue=False, **PRIVATE)
        picked = [self.prompt, *self.controls.inputs]
        self.chips.pick(self.pick, self.controls.inputs, picked, queue=False, **PRIVATE)
        self.blocks.load(self.restore, None, [self.prompt, self.board, *self.controls.inputs], queue=False, **PRIVATE)
        gr.on(
            [block.change for block in self.controls.inputs],
            self.sum_up,
            self.controls.inputs,
            [self.chips, self.settings],
            queue=False,
            trigger_mode="always_last",
            **PRIVATE,
        )

    def race(self, visitor: gr.Request, prompt: str, said: str, token: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """A run, from the press of the button to the last figure; closing the generator stops the model."""
        yield from self._alone(visitor, self._race(visitor, prompt, said, token, *values), outputs=5)

    def _race(self, visitor: gr.Request, prompt: str, said: str, token: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        before = conversation.read_line(said)
        if self.desk.engine is None:
            for values in self._again(visitor, self._recorded(readable(prompt)), SPEEDS[0], "refused.replay"):
                yield (*values, before.line())
            return
        read = self.controls.read(values)
        prompt = readable(prompt)
        ordered = order(self.desk, self.controls.choices, prompt, read, visitor, before, token)
        asked = ordered.request if isinstance(ordered, Order) else Request(prompt_ids=())
        show = Show(Run(RaceRecord(prompt, asked)), drafters=self.controls.choices["drafter"])
        if isinstance(ordered, Refused):
            show.take([ordered])
            yield (*show.values, self.desk.status.line(), before.line())
            return
        # Before any work: a generator that never yielded cannot be closed.
        yield (*show.values, self.desk.status.line(), before.line())
        for values in self._stream(visitor.session_hash, Worker(self.desk, ordered).start(), show):
            answered = show.over and not show.refused
            yield (*values, (before.with_turn(show.record) if answered else before).line())

    def replay(self, visitor: gr.Request, event: gr.EventData) -> Iterator[tuple[Any, ...]]:
        """A finished run of this page, or a recorded one, again from its times."""
        again = self._again(visitor, self._find(visitor, event), _speed(event), "replay.gone")
        yield from self._alone(visitor, again, outputs=4)

    def _alone(
        self, visitor: gr.Request, values: Iterator[tuple[Any, ...]], *, outputs: int
    ) -> Iterator[tuple[Any, ...]]:
        """These values; nothing where a run or a replay of the same page is going, which the page shows already."""
        if self._going.setdefault(visitor.session_hash, values) is not values:  # two may ask in the same instant
            yield (gr.skip(),) * outputs
            return
        try:
            yield from values
        finally:
            del self._going[visitor.session_hash]

    def _again(self, visitor: gr.Request, run: Run | None, speed: float, otherwise: str) -> Iterator[tuple[Any, ...]]:
        """A replay of this run; where there is none, the sentence that says so."""
        if run is None:
            show = Show(Run(RaceRecord("", Request(prompt_ids=()))))
            show.take([Refused(otherwise)])
            yield (*show.values, self.desk.status.line())
            return
        record = run.record
        show = Show(Run(RaceRecord(record.prompt, record.request, record.known), listed=False), replay_of=run.number)
        yield (*show.values, self.desk.status.line())
        yield from self._stream(visitor.session_hash, Player(record, speed).start(), show)

    def _recorded(self, prompt: str) -> Run | None:
        """The run that came with the program for this prompt."""
        return next((run for run in self.runs.recorded if run.record.prompt == prompt.strip()), None)

    def pace(self, visitor: gr.Request, event: gr.EventData) -> None:
        """The replay that is going goes on at another speed."""
        player = self._workers.get(visitor.session_hash)
        if isinstance(player, Player):
            player.speed = _speed(event)

    def fetch(self, visitor: gr.Request, event: gr.EventData) -> str:
        """A run as a file."""
        found = self._find(visitor, event)
        if found is None:
            return encode({"at": time.time(), "refused": ("replay.gone", {})})
        kind = event._data.get("kind") if event._data.get("kind") in FILES else "json"
        text = FILES[kind](found.record, str(event._data.get("language", DEFAULT)))
        return encode({"at": time.time(), "file": {"name": f"specdemo-run-{found.number}.{kind}", "text": text}})

    def bring(self, visitor: gr.Request, event: gr.EventData) -> str:
        """A file that the visitor brings, as a run that can be replayed."""
        try:
            run = Run(read(str(event._data.get("text", ""))))
        except TraceFileRefused as error:
            return encode({"at": time.time(), "refused": ("load.refused", {"message": recognise(str(error))})})
        self.runs.keep(visitor.session_hash, run, in_panes=False)
        return encode({"at": time.time(), "rows": [row(run, "file") | {"name": str(event._data.get("name", ""))[:60]}]})

    def _find(self, visitor: gr.Request, event: gr.EventData) -> Run | None:
        number = event._data.get("run")
        return self.runs.find(visitor.session_hash, number) if isinstance(number, int) else None

    def _outputs(self, show: Show) -> tuple[Any, ...]:
        return (*(gr.skip() if value is None else value for value in show.values), self.desk.status.line())

    def _stream(self, visitor: str, worker: Worker | Player, show: Show) -> Iterator[tuple[Any, ...]]:
        with at_work(self._workers, visitor, worker):
            yield from self._drained(visitor, worker, show)

    def _drained(self, visitor: str, worker: Worker | Player, show: Show) -> Iterator[tuple[Any, ...]]:
        sent: tuple[Any, ...] = ()
        at, kept = 0.0, False
        while not show.over:
            show.take(worker.drain(DRAIN_SECONDS if show.begun else WAIT_SECONDS))
            if show.begun and not kept:
                self.runs.keep(visitor, show.run)
                kept = True
            values = self._outputs(show)
            now = time.monotonic()
            if values != sent or now - at >= HEARTBEAT_SECONDS:
                sent, at = values, now
                yield values
        # Gradio closes a run by sending its last values in full: the panes' are long, and are on the page already.
        yield gr.skip(), gr.skip(), *sent[2:]

    def halt(self, visitor: gr.Request) -> None:
        """Stop this page's run and wait until its last figures are on the page."""
        worker = self._workers.get(visitor.session_hash)
        if worker is not None:
            worker.stop.set()
            worker.shown.wait(STOP_SECONDS)

    def watch(self) -> Iterator[str]:
        """The state of loading, until there is no more to say."""
        status = self.desk.status
        yield status.line()
        while status.state is Loaded.LOADING:
            status = self.desk.watch(status.number, 1.0)
            yield status.line()

    def stands(self) -> str:
        """The state of loading now, in an answer of its own, whatever became of the stream that tells it."""
        return self.desk.status.line()

    def retry(self) -> Iterator[str]:
        """Load again what could not be loaded."""
        self.desk.open()
        yield from self.watch()

    def greet(self, language: str) -> list[dict[str, Any]]:
        """Gradio's own words in the browser's language, where they are not that already."""
        words = self._words(language)
        return [gr.skip()] * len(words) if language == DEFAULT else words

    def relabel(self, event: gr.EventData) -> list[dict[str, Any]]:
        """Gradio's own words in another language; our parts change theirs in the browser."""
        return self._words(event._data["language"])

    def _words(self, language: str) -> list[dict[str, Any]]:
        own = [
            gr.update(placeholder=say(language, "prompt.placeholder"), label=say(language, "prompt")),
            gr.update(value=say(language, "run")),
            gr.update(value=say(language, "stop")),
        ]
        return own + self.controls.relabel(language)

    def sum_up(self, *values: Any) -> tuple[str, str]:
        """The settings in a line, and what can be kept of them."""
        read = self.controls.read(values)
        return encode(summary(read, self.controls.theirs)), self._kept(read)

    def _kept(self, read: dict[str, Any]) -> str:
        """Settings as what a link adds to the page's address, and as a file of options."""
        file = file_of(read, getattr(self.desk, "spec", None), public=self.desk.rules.public)
        return encode({"link": write_link(read, self.fresh), "file": file})

    def restore(self, visitor: gr.Request) -> list[Any]:
        """The prompt and the settings that the page's address asks for; what it may not ask for is told."""
        prompt, values, refused = read_link(
            dict(visitor.query_params), self.fresh, self.controls.choices, self.controls.theirs
        )
        board = gr.skip()
        if refused is not None:
            said = scoreboard.message("refused.link", message=(refused.key, refused.params))
            board = encode({"state": "refused", "running": False} | said)
        changed = [gr.skip() if values[name] == self.fresh[name] else values[name] for name in self.fresh]
        return [gr.skip() if prompt is None else prompt, board, *changed]

    def attempt(self, event: gr.EventData) -> list[Any]:
        """The settings, with what the board proposes to try set; what is no setting is passed over."""
        wanted = event._data.get("set", {})
        return [wanted[name] if name in wanted else gr.skip() for name in self.fresh]

    def look(self, visitor: gr.Request, event: gr.EventData) -> str:
        """One step of a run that this page has shown, with everything that is known of it."""
        return encode(glass.answer(self.runs, visitor.session_hash, event._data))

    def work(self, visitor: gr.Request, event: gr.EventData) -> str:
        """The step that "How it works" works through."""
        return encode(how.work(self.runs, visitor.session_hash, event._data))

    def pick(self, event: gr.EventData, *values: Any) -> list[Any]:
        """An example's prompt and settings."""
        example = self.examples[int(event._data["index"])]
        wanted = settings_with(example, self.examples, self.controls.read(values), self.fresh)
        ours = wanted.keys() - self.controls.theirs
        return [example["prompt"], *(wanted[name] if name in ours else gr.skip() for name in self.fresh)]


def _speed(event: gr.EventData) -> float:
    speed = event._data.get("speed")
    return speed if speed in SPEEDS else SPEEDS[0]
