"""What can a program ask this page for? `compare`, `stream`, `pairs` and `health`, typed, with versioned answers.

Gradio offers them through its client, as plain HTTP and, where the `mcp` package is installed, as MCP tools
(docs/api.md has an example of each). A call stands in the same line as the page's visitors, under the same rules.
What cannot be had is an error whose message is a sentence.
"""

import inspect
import json
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import gradio as gr
from pydantic import BaseModel, ConfigDict

from specdemo.decoding.steps import DraftLength, Rule, Step
from specdemo.metrics import LaneMetrics
from specdemo.race import Lane, Mode, Request
from specdemo.race_options import DRAFT_LENGTH
from specdemo.recording import RaceRecord, Settled, Wrote
from specdemo.ui import scoreboard
from specdemo.ui.controls import MODEL
from specdemo.ui.desk import Desk
from specdemo.ui.engine import AS_TARGET
from specdemo.ui.gone import told_when_gone
from specdemo.ui.login import Account, LoginRefused, account_behind, account_of
from specdemo.ui.orders import order, readable
from specdemo.ui.replay import ClosedDesk
from specdemo.ui.report import as_json
from specdemo.ui.text import DEFAULT, tell
from specdemo.ui.worker import Began, Ended, Event, Loading, Order, Refused, Waiting, Worker

VERSION = 1  # of every answer; it grows when a key goes or changes its meaning, not when one is added
STREAM_SECONDS = 0.05  # steps that come within so long are one message
HEARTBEAT_SECONDS = 5.0  # between two messages that say nothing new
BY_NAME = {  # sentences that speak of Settings on the page, and of a parameter here
    "refused.number", "refused.notwhole", "refused.notnumber", "refused.choice", "refused.stops", "refused.tokens",
    "refused.drafter", "refused.model",
}  # fmt: skip


class LaneAnswer(BaseModel):
    """A lane's text and figures, named as specdemo.metrics defines them; None where one is not defined."""

    model_config = ConfigDict(extra="forbid")

    text: str
    tokens: int | None
    stop: str | None
    seconds: float | None
    prefill_seconds: float | None
    time_to_first_token: float | None
    tokens_per_second: float | None
    end_to_end_tokens_per_second: float | None
    target_passes: int
    tokens_per_target_pass: float | None
    drafted: int
    accepted: int
    draft_acceptance_rate: float | None
    mean_acceptance_length: float | None


class StepAnswer(BaseModel):
    """A lane's step, what each of its tokens adds to the text, and what it drafted, each token by itself."""

    model_config = ConfigDict(extra="forbid")

    lane: Lane
    texts: tuple[str, ...]
    drafts: tuple[str, ...]
    step: Step


class Answer(BaseModel):
    """What `compare` comes to. like_for_like: not so where one lane ran on a server, and one here.

    race: the file that the page and `specdemo.trace_files` read, where it was asked for.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = VERSION
    state: Literal["done", "stopped"]
    prompt: str
    baseline: LaneAnswer
    speculative: LaneAnswer
    speedup: float | None
    end_to_end_speedup: float | None
    like_for_like: bool
    speed: str | None
    sameness: str | None
    verdict: str
    pair: dict[str, str]
    environment: dict[str, str]
    race: dict[str, Any] | None


class Api:
    """The functions over a desk. choices, fresh: of the page's settings, and what they begin with.

    theirs: settings that are the servers' own, where the lanes run on servers.
    """

    def __init__(
        self,
        desk: Desk | ClosedDesk,
        choices: Mapping[str, Collection[str]],
        fresh: dict[str, Any],
        theirs: Collection[str] = (),
    ) -> None:
        self._desk = desk
        self._theirs = theirs
        self._choices = choices
        self._fresh = fresh

    def publish(self) -> None:
        """Offer them, inside the open gr.Blocks."""
        gr.api(self.compare, api_name="compare", concurrency_limit=None)
        gr.api(self.stream, api_name="stream", concurrency_limit=None)
        gr.api(self.pairs, api_name="pairs", queue=False)
        gr.api(self.health, api_name="health", queue=False)

    def compare(
        self,
        visitor: gr.Request,
        token: gr.OAuthToken | None,
        prompt: str,
        max_new_tokens: int = 128,
        gamma: int = 5,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        rule: str = "shared noise",
        mode: str = "raced",
        draft_length: str = DRAFT_LENGTH.value,
        drafter: str = "",
        stop_strings: str = "",
        race: bool = False,
        tag: str = "",
    ) -> Iterator[dict]:
        """Race plain against speculative decoding on one prompt, and give both texts and the metrics.

        While the call waits or runs, it gives {"version", "state"}; the last value is the answer.

        Parameters:
            prompt: what to ask the model
            max_new_tokens: where an answer ends at the latest, 8 to 1024
            gamma: draft length, 0 to 16; 0 is plain decoding
            temperature: 0 to 2; 0 is greedy
            top_p: 0.05 to 1; 1 is off
            top_k: 0 to 200; 0 is off
            min_p: 0 to 0.5; 0 is off
            repetition_penalty: 1 to 2; 1 is off
            seed: of the draws, where temperature is not 0
            rule: how a draft is judged: "shared noise", "rejection" or "block"
            mode: "raced" or "one after another"
            draft_length: how long each draft is; see pairs
            drafter: who drafts; see pairs. Empty: what this program was started with
            stop_strings: an answer ends at one of these, one a line
            race: also give every step of both lanes, as a file that replays
            tag: what this call is counted under, where the host keeps a log
        """
        typed = {name: value for name, value in locals().items() if name in self._fresh}
        if not isinstance(race, bool):
            raise _error(Refused("refused.notbool", {"name": "race"}))
        record, state, place = RaceRecord(readable(prompt), Request(prompt_ids=())), "waiting", {}
        for events in self._run(visitor, token, prompt, typed, HEARTBEAT_SECONDS, tag):
            for event in events:
                state, place = _fold(record, event) or state, _place(event) or place
            if state not in ("done", "stopped"):
                yield {"version": VERSION, "state": state} | (place if state == "waiting" else {})
        yield _answer(record, state, race=race)

    def stream(
        self,
        visitor: gr.Request,
        token: gr.OAuthToken | None,
        prompt: str,
        max_new_tokens: int = 128,
        gamma: int = 5,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        rule: str = "shared noise",
        mode: str = "raced",
        draft_length: str = DRAFT_LENGTH.value,
        drafter: str = "",
        stop_strings: str = "",
        tag: str = "",
    ) -> Iterator[dict]:
        """Race plain against speculative decoding on one prompt, and give the Steps of both lanes as they come.

        Each value is {"version", "state", "steps"}: the steps since the last value, which may be none. While another
        run has the device, also "before", the runs that come first, and "seconds" until this one begins, or null. The
        last value has the state "done" or "stopped". Lanes on servers know at their end who wrote what: the state
        "settled" gives all steps again, in place of those before. A step is {"lane", "texts", "drafts", "step"}.

        Parameters:
            prompt: what to ask the model
            max_new_tokens: where an answer ends at the latest, 8 to 1024
            gamma: draft length, 0 to 16; 0 is plain decoding
            temperature: 0 to 2; 0 is greedy
            top_p: 0.05 to 1; 1 is off
            top_k: 0 to 200; 0 is off
            min_p: 0 to 0.5; 0 is off
            repetition_penalty: 1 to 2; 1 is off
            seed: of the draws, where temperature is not 0
            rule: how a draft is judged: "shared noise", "rejection" or "block"
            mode: "raced" or "one after another"
            draft_length: how long each draft is; see pairs
            drafter: who drafts; see pairs. Empty: what this program was started with
            stop_strings: an answer ends at one of these, one a line
            tag: what this call is counted under, where the host keeps a log
        """
        typed = {name: value for name, value in locals().items() if name in self._fresh}
        record, state, place = RaceRecord(readable(prompt), Request(prompt_ids=())), "waiting", {}
        told, at = ("", place), 0.0
        for events in self._run(visitor, token, prompt, typed, STREAM_SECONDS, tag):
            for event in events:
                state, place = _fold(record, event) or state, _place(event) or place
            settled = next((event for event in events if isinstance(event, Settled)), None)
            if settled is not None:
                again = [_step(wrote) for wrote in settled.written]
                yield {"version": VERSION, "state": "settled", "steps": again}
            steps = [] if settled else [_step(event) for event in events if isinstance(event, Wrote)]
            now = time.monotonic()
            if steps or (state, place) != told or now - at >= HEARTBEAT_SECONDS:
                told, at = (state, place), now
                yield {"version": VERSION, "state": state, "steps": steps} | (place if state == "waiting" else {})

    def pairs(self) -> dict:
        """What can be raced here: the pair that is loaded, the drafters, the choices of every setting, the bounds.

        Where a server drafts, there is no choice of what is its own.
        """
        rules, theirs = self._desk.rules, self._theirs
        offered = [name for name in self._choices["drafter"] if name != MODEL]
        return {
            "version": VERSION,
            "loaded": [_told(fact) for fact in self._desk.status.facts],
            "drafters": [] if "drafter" in theirs else list(dict.fromkeys((*offered, *rules.models))),
            "any_model": not rules.public and "drafter" not in theirs,
            "rules": [] if "rule" in theirs else list(Rule),
            "modes": list(Mode),
            "draft_lengths": [] if "draft_length" in theirs else list(DraftLength),
            "bounds": {
                "new_tokens": rules.new_tokens,
                "prompt_tokens": rules.prompt_tokens,
                "seconds": rules.seconds,
                "runs_a_minute": rules.runs_a_minute,
                "waiting": rules.waiting,
            },
        }

    def health(self) -> dict:
        """Whether the pair is loaded ("loading", "ready", "failed"), and how many runs have the device or wait."""
        status = self._desk.status
        return {
            "version": VERSION,
            "state": str(status.state),
            "message": status.message,
            "runs": len(self._desk.line),
            "races": self._desk.engine is not None,
        }

    def _run(
        self,
        visitor: gr.Request,
        token: gr.OAuthToken | None,
        prompt: Any,
        typed: dict[str, Any],
        pause: float,
        tag: Any,
    ) -> Iterator[list[Event]]:
        """What happens in this run, now and then; closing the generator stops it. Raises gr.Error with a sentence."""
        if self._desk.engine is None:
            raise _error(Refused("refused.replay"))
        for name, value in {"prompt": prompt, "tag": tag, **typed}.items():
            if name in TEXTS and not isinstance(value, str | None):
                raise _error(Refused("refused.nottext", {"name": name}))
        values = self._values(typed)
        for name in typed:
            if name in self._theirs and typed[name] not in (USUAL[name], self._fresh[name]):
                raise _error(Refused("refused.theirs", {"name": f"@{name}"}))
        account = self._account(visitor, token)
        told = {"source": "api", "tag": readable(tag), "account": account}
        ordered = order(self._desk, self._choices, prompt, values, visitor, **told)
        if not isinstance(ordered, Order):
            raise _error(self._by_name(ordered))
        worker = Worker(self._desk, ordered)
        try:
            with told_when_gone(worker.stop):
                yield []  # before any work: a generator that never yielded cannot be closed
                yield from _drained(worker.start(), pause)
        finally:
            worker.stop.set()

    def _account(self, visitor: gr.Request, token: gr.OAuthToken | None) -> Account | None:
        """Who calls, on a page for those who have signed in: whose browser it is, or whose token came with the call."""
        account = account_of(visitor)
        if account is not None or not self._desk.rules.login:
            return account
        if token is None:
            raise _error(Refused("refused.login.api"))
        try:
            return account_behind(token.token)
        except LoginRefused as refused:
            raise _error(Refused(*refused.reason)) from None

    def _by_name(self, refused: Refused) -> Refused:
        """The same in the words of a program, which gives parameters and sees no Settings."""
        key = f"{refused.key}.api" if refused.key in BY_NAME else refused.key
        setting = refused.params.get("name", "").removeprefix("@")
        name = "drafter" if setting == "draft_model" else setting
        return Refused(key, refused.params | {"name": name, "choices": ", ".join(self._choices.get(setting, ()))})

    def _values(self, typed: dict[str, Any]) -> dict[str, Any]:
        """Settings by name: the page's own, and what was given; a drafter that Settings do not offer is typed there."""
        values = self._fresh | typed
        if not typed["drafter"]:
            return values | {name: self._fresh[name] for name in ("drafter", "draft_model")}
        if typed["drafter"] in self._choices["drafter"] and typed["drafter"] != MODEL:
            return values
        return values | {"drafter": MODEL, "draft_model": typed["drafter"], "draft_precision": AS_TARGET}


_PARAMETERS = inspect.signature(Api.compare).parameters
TEXTS = {name for name, one in _PARAMETERS.items() if one.annotation is str}
USUAL = {name: one.default for name, one in _PARAMETERS.items()}
"""What a call has where it does not say; the page's own settings may begin with something else."""


def _drained(worker: Worker, pause: float) -> Iterator[list[Event]]:
    """All that happens, to the last event. pause: in seconds, between two lists of a run that has begun."""
    events: list[Event] = []
    while not (events and isinstance(events[-1], Ended)):
        events = worker.drain(pause if worker.running else HEARTBEAT_SECONDS)
        if events and isinstance(events[-1], Refused):
            raise _error(events[-1])
        yield events


def _place(event: Event) -> dict[str, int | None]:
    """What is told of a place in the line; nothing of another event."""
    return {"before": event.before, "seconds": event.seconds} if isinstance(event, Waiting) else {}


def _fold(record: RaceRecord, event: Event) -> str | None:
    """Take what happened into the record; the state that it brings about, if any."""
    match event:
        case Waiting():
            return "waiting"
        case Loading():
            return "loading"
        case Began(request, known):
            record.request, record.known = request, known
            return "running"
        case Wrote():
            record.add(event)
        case Settled():
            record.settle(event)
        case Ended(stopped, parting):
            record.parting = parting
            if stopped:
                for lane in record.lanes.values():
                    lane.stop()
            return "stopped" if stopped else "done"
    return None


def _answer(record: RaceRecord, state: str, *, race: bool) -> dict[str, Any]:
    comparison = record.comparison
    done = state == "done"
    return Answer(
        state=state,
        prompt=record.prompt,
        **{lane: _lane(record.metrics(lane), "".join(record.lanes[lane].texts)) for lane in Lane},
        speedup=comparison.speedup if done else None,
        end_to_end_speedup=comparison.end_to_end_speedup if done else None,
        like_for_like=record.known.here is None,
        speed=comparison.speed if done else None,
        sameness=comparison.sameness,
        verdict=_plain(scoreboard.verdict(record, comparison, over=done)),
        pair=record.known.pair,
        environment=record.known.environment,
        race=json.loads(as_json(record)) if race else None,
    ).model_dump(mode="json")


def _lane(metrics: LaneMetrics, text: str) -> LaneAnswer:
    names = set(LaneAnswer.model_fields) - {"text", "tokens"}
    return LaneAnswer(text=text, tokens=metrics.told_tokens, **{name: getattr(metrics, name) for name in names})


def _step(wrote: Wrote) -> dict[str, Any]:
    answer = StepAnswer(lane=wrote.lane, texts=wrote.texts, drafts=wrote.drafts, step=wrote.step)
    return answer.model_dump(mode="json")


def _error(refused: Refused) -> gr.Error:
    return gr.Error(_plain(scoreboard.message(refused.key, **refused.params)["verdict"]), print_exception=False)


def _told(fact: Any) -> str:
    return fact if isinstance(fact, str) else _plain(fact)


def _plain(sentence: Any) -> str:
    """A sentence in English, without what sets words in bold."""
    return tell(DEFAULT, sentence).replace("**", "")
