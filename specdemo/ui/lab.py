"""The Lab on the page: choose an experiment, run it on the pair of Settings, cancel it, go on with it, keep it.

A run stands in the same line as the races; its rows stay on the server, by visitor, until newer visitors need the room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import gradio as gr

from specdemo.lab.experiment import LabRefused
from specdemo.lab.prompt_files import PromptSet
from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.served import SERVED
from specdemo.remote.options import Servers
from specdemo.ui.controls import Controls
from specdemo.ui.desk import Desk
from specdemo.ui.lab_brought import brought
from specdemo.ui.lab_form import Asked, Form, FormRefused
from specdemo.ui.lab_kept import Kept, Shelf
from specdemo.ui.lab_log import logged
from specdemo.ui.lab_prompts import taken, told
from specdemo.ui.lab_show import LabShow
from specdemo.ui.lab_vote import voted
from specdemo.ui.lab_worker import LabOrder, LabWorker
from specdemo.ui.login import account_of
from specdemo.ui.orders import pair_and_request, readable
from specdemo.ui.parts import Part, encode
from specdemo.ui.replay import ClosedDesk
from specdemo.ui.text import Sentence
from specdemo.ui.text.below import recognise
from specdemo.ui.visitors import address_of
from specdemo.ui.worker import Refused, at_work

DRAIN_SECONDS = 0.25  # a closed tab is noticed as often
WAIT_SECONDS = 0.8  # the same for a run that waits
RESULTS_KEPT = 24  # one of each visitor
SETS_KEPT = 48  # files of prompts
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}

Values = Iterator[tuple[Any, ...]]


class Lab:
    """The view, built inside whatever block is open, and its runs.

    alone: lets a page do one thing at a time. workers: by session, what a page runs now.
    """

    def __init__(
        self, desk: Desk | ClosedDesk, controls: Controls, alone: Callable[..., Values], workers: dict[str, Any]
    ) -> None:
        self._desk, self._controls, self._alone, self._workers = desk, controls, alone, workers
        self._served = isinstance(getattr(desk, "spec", None), Servers)
        drafters = [one for one in controls.choices["drafter"] if one != "model"]
        self._form = Form(desk.rules, drafters, SERVED if self._served else EXPERIMENTS)
        self._kept: Shelf[Kept] = Shelf(RESULTS_KEPT)  # by session
        self._sets: Shelf[PromptSet] = Shelf(SETS_KEPT)  # by session and key
        begin = encode({"forms": self._form.described(), "closed": self.closed})
        events = ("start", "halt", "plan", "fetch", "bring", "vote", "prompts", "log")
        self.view = Part("lab", begin, events=events, elem_id="sd-lab", elem_classes=["sd-part"])
        self.reply = Part("labreply", elem_id="sd-lab-reply")

    @property
    def closed(self) -> Sentence | None:
        """Why nothing can be run here; results can be looked at all the same."""
        if self._desk.engine is None:
            return ("lab.replay", {})
        if self._desk.engine.remote and not self._served:
            return ("lab.closed.mixed", {})
        return ("lab.closed", {}) if self._desk.rules.lab_rows == 0 else None

    def wire(self, header: Part) -> None:
        """What happens on it. header: shows the pair that a run loads."""
        inputs = [self._controls.token, *self._controls.inputs]
        self.view.start(self.run, inputs, [self.view, header], concurrency_limit=None, trigger_mode="once", **PRIVATE)
        self.view.halt(self.halt, None, None, queue=False, **PRIVATE)
        for answer in (self.plan, self.fetch, self.bring, self.vote, self.prompts, self.log):
            getattr(self.view, answer.__name__)(answer, None, self.reply, queue=False, **PRIVATE)

    def run(self, visitor: gr.Request, event: gr.EventData, token: str, *values: Any) -> Values:
        """An experiment, from the press of the button to the last row; closing the generator stops it."""
        yield from self._alone(visitor, self._run(visitor, event._data, token, values), outputs=2)

    def _run(self, visitor: gr.Request, asked: Any, token: str, values: tuple[Any, ...]) -> Values:
        show = LabShow()
        ordered = self._order(visitor, asked, token, values)
        if isinstance(ordered, Refused):
            show.take([ordered])
            yield show.value, self._desk.status.line()
            return
        yield show.value, self._desk.status.line()  # before any work: one that never yielded cannot be closed
        worker = LabWorker(self._desk, ordered).start()
        with at_work(self._workers, visitor.session_hash, worker):
            while not show.over:
                show.take(worker.drain(DRAIN_SECONDS if worker.running else WAIT_SECONDS))
                if worker.result is not None:
                    self._kept.put(visitor.session_hash, Kept(ordered.asked, worker.result))
                yield show.value, self._desk.status.line()

    def _order(self, visitor: gr.Request, asked: Any, token: str, values: tuple[Any, ...]) -> LabOrder | Refused:
        """What is asked for, or why it cannot be had."""
        if self.closed is not None:
            return Refused(*self.closed)
        earlier = self._kept.of(visitor.session_hash) if asked.get("resume") else None
        if asked.get("resume") and earlier is None:
            return Refused("lab.gone")
        try:
            wanted = earlier.asked if earlier else self._read(visitor, asked)
        except FormRefused as refused:
            return Refused(*refused.sentence)
        read, account = self._controls.read(values), account_of(visitor)
        chosen = pair_and_request(self._desk, self._controls.choices, read, token, account)
        if isinstance(chosen, Refused):
            return chosen
        return LabOrder(wanted, chosen[0], earlier and earlier.result, address_of(visitor))

    def halt(self, visitor: gr.Request) -> None:
        """End this page's run within a step; its last rows come by the run itself."""
        worker = self._workers.get(visitor.session_hash)
        if isinstance(worker, LabWorker):
            worker.stop.set()

    def _read(self, visitor: gr.Request, asked: Any) -> Asked:
        """The options of a form, whose prompts are known by their key. Raises FormRefused."""
        mine = partial(self._sets_of, visitor.session_hash)
        return self._form.read(asked.get("experiment"), asked.get("options"), mine)

    def _sets_of(self, whose: str, key: str) -> PromptSet | None:
        return self._sets.of((whose, key))

    def plan(self, visitor: gr.Request, event: gr.EventData) -> str:
        """How many rows the options ask for, or what is wrong with them."""
        try:
            asked = self._read(visitor, event._data)
        except FormRefused as refused:
            return _answer(plan={"wrong": refused.sentence})
        return _answer(plan={"rows": len(asked.cells)})

    def fetch(self, visitor: gr.Request, event: gr.EventData) -> str:
        """The rows that there are, as a file."""
        kept = self._kept.of(visitor.session_hash)
        if kept is None:
            return _answer(refused=("lab.gone", {}))
        kind = event._data.get("kind")
        result = kept.result.model_copy(update={"rows": list(kept.result.rows)})  # a run may be adding some
        experiment = kept.asked.experiment
        if kind == "csv":
            text = result.csv()
        elif kind == "md":
            text = result.markdown(experiment)
        else:
            kind, text = "json", result.model_dump_json(indent=1) + "\n"
        return _answer(file={"name": f"specdemo-lab-{experiment.name}.{kind}", "text": text})

    def bring(self, visitor: gr.Request, event: gr.EventData) -> str:
        """A result that the visitor brings, to be looked at and gone on with."""
        if visitor.session_hash in self._workers:
            return _answer(refused=("busy", {}))
        try:
            one = brought(str(event._data.get("text", "")), self._form)
        except LabRefused as error:
            return _answer(refused=("lab.refused.file", {"message": recognise(str(error))}))
        except FormRefused as error:
            return _answer(refused=("lab.refused.file", {"message": error.sentence}))
        self._kept.put(visitor.session_hash, Kept(one.asked, one.result))
        for made in one.asked.sets:
            self._sets.put((visitor.session_hash, made.key), made)
        loaded = {"state": "loaded", "running": False, "say": ("lab.loaded", {}), "result": one.drawn}
        return _answer(run=loaded, options=self._form.written(one.asked.options))

    def prompts(self, visitor: gr.Request, event: gr.EventData) -> str:
        """A file of prompts that the visitor brings, for the field of a form."""
        try:
            made = taken(event._data.get("name"), event._data.get("text"))
        except LabRefused as error:
            return _answer(refused=("lab.refused.prompts", {"message": recognise(str(error))}))
        self._sets.put((visitor.session_hash, made.key), made)
        return _answer(prompts={"field": readable(event._data.get("field")), "set": told(made)})

    def log(self) -> str:
        """What the log of this page's runs comes to."""
        return _answer(log=logged(self._desk))

    def vote(self, visitor: gr.Request, event: gr.EventData) -> str:
        """The next pair of a blind vote, or which was which."""
        kept = self._kept.of(visitor.session_hash)
        if visitor.session_hash in self._workers:
            return _answer(refused=("busy", {}))
        if kept is None or not kept.asked.experiment.pairs:
            return _answer(refused=("lab.gone", {}))
        return _answer(vote=voted(kept, event._data if isinstance(event._data, Mapping) else {}))


def _answer(**what: Any) -> str:
    return encode({"at": time.time()} | what)
