"""One completion of a server as a lane: chunks to Steps while they arrive, and once more when all that can be known is.

While it runs, nobody knows who is responsible for a token; after it, agreement.py says so where the counts allow it.
A step's clock is the time between two arrivals, drafting and network included, or the server's own where it tells it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from specdemo.decoding.steps import UNTOLD, Drafted, Origin, Step, Stop, Token, Verdict, Why
from specdemo.race import Lane
from specdemo.recording import Wrote
from specdemo.remote import wire
from specdemo.remote.address import short
from specdemo.remote.agreement import Round, counted, told
from specdemo.remote.counters import Counters, difference
from specdemo.remote.endpoint import GRACE, Endpoint, Sent
from specdemo.remote.facts import TEMPLATE, Provenance
from specdemo.remote.faults import RemoteFault
from specdemo.remote.settings import Settings

LONGEST_TOKEN = 512  # characters; no vocabulary has one, and text without tokens ends there, too
LOOK_SECONDS = 0.1  # between two looks of who awaits an arrival: whether the lane was let go of
LEAST_SECONDS = 1e-6  # of a step: no engine makes a million a second
SCRAPES_APART = 0.25  # seconds: a scrape may be older than the last chunk
KEPT = "What had arrived is kept."


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a server. prompt: ids, or text where it has no tokenizer. settings: sampling, by wire names.

    limit: what max_tokens stands for, the person's budget or what the context leaves. own: those of the settings that
    this lane has for itself.
    """

    model: str
    prompt: str | tuple[int, ...]
    max_tokens: int
    settings: dict[str, Any]
    limit: Stop = Stop.BUDGET
    own: Settings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A chunk that held tokens, and the seconds since the one before it, or since the request. ids: None: not told."""

    text: str
    ids: tuple[int, ...] | None
    seconds: float


class RemoteLane:
    """One lane over one server. `run` yields what arrives; `settle` afterwards what came of it.

    fault: the sentence of what went wrong; what had arrived before is kept. between: what the server counted meanwhile.
    watched: whether the server's counters are asked around it, which says something of a request that is alone.
    spelled: whether each token's own text is wanted. retokenised: the ids are the tokenizer's. untold: there are none.
    """

    def __init__(
        self, lane: Lane, endpoint: Endpoint, asked: Asked, *, watched: bool = True, spelled: bool = True
    ) -> None:
        self.lane = lane
        self.endpoint = endpoint
        self.asked = asked
        self.arrivals: list[Arrival] = []
        self.prompt_ids: tuple[int, ...] = () if isinstance(asked.prompt, str) else asked.prompt
        self.fault: str | None = None
        self.between: Counters | None = None
        self.times: wire.Times | None = None
        self.drafting: wire.Drafting | None = None
        self.provenance = Provenance.UNKNOWN
        self.retokenised = self.untold = False
        self._sent = Sent()
        self._template = [] if endpoint.templated else [TEMPLATE]
        self._watched = watched
        self._stop: Stop | None = None
        self._tokens = self._characters = 0
        self._spells = spelled  # until the server once does not spell a token
        self._stopped = threading.Event()
        self._before: Counters | None = None
        self._rounds: list[Round] | None = None

    @property
    def began(self) -> float:
        """When it was asked, by time.perf_counter."""
        return self._sent.at

    @property
    def dropped(self) -> list[str]:
        """What was asked for, or would have been, and the server does not know."""
        return self._template + self._sent.dropped

    def run(self) -> Iterator[Wrote]:
        """What arrives, while it arrives; a thread of its own stamps it, so that showing it takes no time from it."""
        self._before = self.endpoint.counters() if self._watched else None
        asked = self.asked
        queue: SimpleQueue[tuple[float, wire.Chunk] | BaseException | None] = SimpleQueue()
        last: float | None = None
        threading.Thread(target=self._read, args=(queue,), daemon=True).start()
        try:
            heard = time.perf_counter()
            while (item := self._next(queue, heard)) is not None:
                if isinstance(item, RemoteFault):
                    self._end(item)
                elif isinstance(item, BaseException):
                    raise item
                else:
                    at, chunk = item
                    if (arrival := self._take(chunk, at - (self.began if last is None else last))) is not None:
                        last = heard = at
                        yield self._wrote(arrival, None, arrival.seconds)
                    if self._tokens > asked.max_tokens or self._characters > LONGEST_TOKEN * asked.max_tokens:
                        self._end(
                            RemoteFault(
                                f"The server at {self.endpoint.name} sends more than it was asked for: take one that "
                                "keeps to max_tokens."
                            )
                        )
                        return
            self.times = self.times if self._believable() else None
            self._rounds = self._judge()  # before the other lane is asked, perhaps of the same server
        finally:
            self._stopped.set()

    def _next(
        self, queue: SimpleQueue[tuple[float, wire.Chunk] | BaseException | None], heard: float
    ) -> tuple[float, wire.Chunk] | BaseException | None:
        """What came, however long it takes to come; None once the stream is over or let go of.

        heard: when a token last came: a server that keeps a connection alive with anything else is silent, too.
        """
        while not self._stopped.is_set():
            if time.perf_counter() - heard > self.endpoint.timeout + GRACE:
                self._stopped.set()
                return self.endpoint.refusals.silent()
            try:
                return queue.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
        return None

    def _believable(self) -> bool:
        """Whether the server's own time for the answer is one that an engine can need."""
        least = LEAST_SECONDS * (len(self.arrivals) - 1)
        return self.times is not None and self.times.generation_time_ms / 1000 >= least

    def stop(self) -> None:
        """Let go of the stream with its next chunk, whereupon the server ends the request."""
        self._stopped.set()

    def settle(self, server_times: bool) -> list[Wrote]:
        """The lane's steps with all that can be known of them. server_times: by the server's clock, not by arrivals."""
        arrivals = self._retokenise(list(self.arrivals))  # one that was stopped may still be arriving
        rounds = self._rounds  # and be judged meanwhile
        steps = []
        for i, (arrival, seconds) in enumerate(zip(arrivals, self._seconds(arrivals, server_times), strict=True)):
            wrote = self._wrote(arrival, rounds and rounds[i], seconds)
            if i == 0:
                wrote = replace(wrote, step=replace(wrote.step, why=Why.PREFILL))
            steps.append(wrote)
        if steps:
            steps[-1] = self._ended(steps[-1])
        return steps

    def _read(self, queue: SimpleQueue) -> None:
        asked = self.asked
        try:
            for chunk in self.endpoint.stream(asked.model, asked.prompt, asked.max_tokens, asked.settings, self._sent):
                queue.put((time.perf_counter(), chunk))
                if self._stopped.is_set():
                    return
        except BaseException as error:  # said where the lane runs
            queue.put(error)
        finally:
            queue.put(None)

    def _end(self, fault: RemoteFault) -> None:
        self._stop = Stop.FAULT
        self._say(fault)

    def _say(self, fault: RemoteFault) -> None:
        self.fault = f"{fault} {KEPT}" if self.arrivals else str(fault)

    def _take(self, chunk: wire.Chunk, seconds: float) -> Arrival | None:
        self.times, self.drafting = chunk.times or self.times, chunk.drafting or self.drafting
        if not chunk.choices:
            return None
        choice = chunk.choices[0]
        self.prompt_ids = self.prompt_ids or tuple(choice.prompt_token_ids or ())
        if choice.finish_reason == "length":
            self._stop = self.asked.limit
        elif choice.finish_reason == "stop":
            self._stop = Stop.STOP_STRING if isinstance(choice.stop_reason, str) else Stop.EOS
        elif choice.finish_reason:
            reason = short(choice.finish_reason)
            self._end(
                RemoteFault(f"The server at {self.endpoint.name} gave up the answer ({reason}): see what it logged.")
            )
        ids = None if choice.token_ids is None else tuple(choice.token_ids)
        self._characters += len(choice.text)
        if not ids and not choice.text:
            return None
        if ids == ():  # text that was held back, of tokens that came before
            if self.arrivals:
                self.arrivals[-1] = replace(self.arrivals[-1], text=self.arrivals[-1].text + choice.text)
            return None
        self._tokens += 1 if ids is None else len(ids)
        self.arrivals.append(Arrival(choice.text, ids, seconds))
        return self.arrivals[-1]

    def _retokenise(self, arrivals: list[Arrival]) -> list[Arrival]:
        """Where the server gives no ids, they are its tokenizer's, chunk by chunk; where that fails, nobody's."""
        model, without = self.asked.model, [one for one in arrivals if one.ids is None]
        try:
            ids = {one.text: tuple(self.endpoint.tokens(model, one.text)) for one in without}
        except RemoteFault as fault:
            self.untold = True
            if self.fault is None:  # else what ended the answer is the reason, also of this
                self._say(fault)
            return arrivals
        self.retokenised = bool(without)
        return [one if one.ids is not None else replace(one, ids=ids[one.text]) for one in arrivals]

    def _judge(self) -> list[Round] | None:
        """Each step's round, None where it is not known; sets how it is known."""
        lengths = [len(one.ids) for one in self.arrivals if one.ids is not None]
        if not lengths or len(lengths) < len(self.arrivals) or self._stop in (None, Stop.FAULT):
            return None  # a request that was cut off is counted otherwise than it is told
        if self.drafting and (rounds := told(lengths, self.drafting)):
            self.provenance = Provenance.TOLD
            return rounds
        if self._before is None:
            return None
        for pause in (0, SCRAPES_APART):
            self._stopped.wait(pause)
            after = self.endpoint.counters()
            self.between = difference(self._before, after) if after else None
            if self.between is None or not self.between.engine:
                return None
            if not self.between.speculates:
                self.provenance = Provenance.PLAIN
                return [Round()] * len(lengths)
            if rounds := counted(lengths, self.between):
                self.provenance = Provenance.COUNTED
                return rounds
        return None

    def _seconds(self, arrivals: list[Arrival], server_times: bool) -> list[float]:
        """Each step's share of the clock; the server tells two sums, which the steps share as their arrivals did."""
        seconds = [arrival.seconds for arrival in arrivals]
        if not (server_times and self.times and seconds):
            return seconds
        arrived = sum(seconds[1:])
        scale = self.times.generation_time_ms / 1000 / arrived if arrived else 0.0
        return [self.times.time_to_first_token_ms / 1000, *(one * scale for one in seconds[1:])]

    def _wrote(self, arrival: Arrival, one: Round | None, seconds: float) -> Wrote:
        ids = (UNTOLD,) if arrival.ids is None else arrival.ids
        tokens = tuple(Token(i, origin) for i, origin in zip(ids, _origins(len(ids), one), strict=True))
        drafted = _drafted(ids, one)
        step = Step(
            tokens,
            drafted,
            gamma=one.drafted if one else 0,
            why=Why.POLICY if drafted else Why.PLAIN,
            draft_seconds=0.0,
            verify_seconds=seconds,
            other_seconds=0.0,
        )
        texts = self._texts(arrival) if drafted else _as_one(arrival.text, ids)
        return Wrote(self.lane, step, texts, ("",) * len(drafted))

    def _texts(self, arrival: Arrival) -> tuple[str, ...]:
        """What each token adds, where the tokens by themselves make the chunk's text; else all of it at the first."""
        spelled: list[str] = []
        if len(arrival.ids) > 1 and self._spells:
            for token_id in arrival.ids:
                one = self.endpoint.spelling(self.asked.model, token_id)
                if one is None:
                    self._spells = False
                    return _as_one(arrival.text, arrival.ids)
                spelled.append(one)
        if spelled and "".join(spelled[:-1]) == arrival.text:  # the last one ended the text
            return (*spelled[:-1], "")
        return tuple(spelled) if "".join(spelled) == arrival.text and spelled else _as_one(arrival.text, arrival.ids)

    def _ended(self, last: Wrote) -> Wrote:
        return replace(last, step=replace(last.step, stop=self._stop or Stop.STOPPED))


def _as_one(text: str, ids: tuple[int, ...]) -> tuple[str, ...]:
    return (text, *("",) * (len(ids) - 1))


def _origins(n: int, one: Round | None) -> list[Origin]:
    if one is None:
        return [Origin.UNKNOWN] * n
    if not one.drafted:
        return [Origin.TARGET] * n
    accepted = min(n, one.accepted)
    own = Origin.BONUS if one.accepted == one.drafted else Origin.CORRECTED
    return [Origin.ACCEPTED] * accepted + [own] * (n - accepted)


def _drafted(ids: tuple[int, ...], one: Round | None) -> tuple[Drafted, ...]:
    """What a round drafted: the accepted tokens by their ids, where they were emitted, the others without."""
    if one is None:
        return ()
    known = (*ids[: one.accepted], *(UNTOLD,) * one.drafted)[: one.drafted]
    return tuple(
        Drafted(
            known[i],
            Verdict.ACCEPTED if i < one.accepted else Verdict.REFUSED if i == one.accepted else Verdict.UNREACHED,
        )
        for i in range(one.drafted)
    )
