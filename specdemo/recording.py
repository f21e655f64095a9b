"""What does a race leave behind? Each lane's Steps with their texts and figures, and the race as a file.

Terminal, page and replay fold the same `Wrote` into the same records; only a Scribe needs a tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from specdemo.decoding.steps import Parting, Step, Stop, Trace
from specdemo.metrics import Comparison, LaneMetrics, compare, identity_promised
from specdemo.race import Lane, LaneStep, Request
from specdemo.trace_files import RaceFile

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

HERE = "lane here"  # among the facts of a pair


class Speller(Protocol):
    """Turns a lane's ids into text one by one (models.text.Detokenizer)."""

    def add(self, token_id: int) -> str: ...

    def flush(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Wrote:
    """A lane made a step. texts: what each token adds to the text, "" while a character is incomplete.

    drafts, residual: each drafted token and each of `residual_top`, by itself. end: the name of the end of text, which
    adds nothing, where the step ends with it.
    """

    lane: Lane
    step: Step
    texts: tuple[str, ...]
    drafts: tuple[str, ...] = ()
    residual: tuple[str, ...] = ()
    end: str = ""


class Scribe:
    """Spells one lane's Steps. spelling: one token by itself."""

    def __init__(self, lane: Lane, speller: Speller, spelling: Callable[[int], str]) -> None:
        self.lane = lane
        self._speller = speller
        self._spelling = spelling

    def spell(self, step: Step) -> Wrote:
        """The lane's next step with its texts."""
        texts = [self._speller.add(token.id) for token in step.tokens]
        if step.stop is not None and texts:
            texts[-1] += self._speller.flush()
        return Wrote(
            self.lane,
            step,
            tuple(texts),
            tuple(self._spelling(drafted.id) for drafted in step.drafted),
            tuple(self._spelling(token_id) for token_id, _ in step.residual_top),
            self._spelling(step.tokens[-1].id) if step.stop is Stop.EOS and not texts[-1] else "",
        )

    def flush(self) -> str:
        """What was held back for a character that never came, when the lane is stopped."""
        return self._speller.flush()


def spelled(
    steps: Iterator[LaneStep], speller: Callable[[], Speller], spelling: Callable[[int], str]
) -> Iterator[Wrote]:
    """A race's steps with their texts; closing it closes the race. speller: a new one for a lane."""
    scribes = {lane: Scribe(lane, speller(), spelling) for lane in Lane}
    try:
        for one in steps:
            yield scribes[one.lane].spell(one.step)
    finally:
        steps.close()


class Recording:
    """A lane while it runs: a fold over what it wrote. points: its clock and its tokens after each step."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.written: list[Wrote] = []
        self.texts: list[str] = []
        self.points: list[tuple[float, int]] = []
        self.metrics = LaneMetrics()

    @property
    def steps(self) -> list[Step]:
        """All steps so far."""
        return [wrote.step for wrote in self.written]

    def add(self, wrote: Wrote) -> None:
        """Take the lane's next step."""
        self.written.append(wrote)
        self.metrics.add(wrote.step)
        self.texts.extend(wrote.texts)
        self.points.append((self.metrics.seconds or 0.0, self.metrics.tokens))

    @classmethod
    def of(cls, trace: Trace) -> Recording:
        """The lane that left this trace."""
        recording = cls(Lane(trace.lane))
        at = 0
        for step in trace.steps:
            n = len(step.tokens)
            texts = trace.texts[at : at + n] or ("",) * n
            ended = step.stop is Stop.EOS and n and not texts[-1]
            spellings = trace.spellings
            recording.add(
                Wrote(
                    recording.lane,
                    step,
                    tuple(texts),
                    tuple(spellings.get(drafted.id, "") for drafted in step.drafted),
                    tuple(spellings.get(token_id, "") for token_id, _ in step.residual_top),
                    spellings.get(step.tokens[-1].id, "") if ended else "",
                )
            )
            at += n
        return recording

    def stop(self, held: str = "") -> None:
        """Somebody stopped the lane; no effect on one that has ended by itself or has not begun.

        held: what the lane's Scribe held back.
        """
        if not self.written or self.metrics.stop is not None:
            return
        last = self.written[-1]
        self.written[-1] = replace(last, step=replace(last.step, stop=Stop.STOPPED))
        self.metrics.stop = Stop.STOPPED
        if self.texts:
            self.texts[-1] += held

    def trace(self, request: Request, pair: dict[str, str], environment: dict[str, str]) -> Trace:
        """What is left of the lane: enough to show, measure and replay it."""
        return Trace(
            lane=self.lane.value,
            prompt_ids=request.prompt_ids,
            params=request.params,
            rule=request.rule,
            steps=tuple(self.steps),
            texts=tuple(self.texts),
            spellings=self._spellings(),
            pair=pair,
            environment=environment,
        )

    def _spellings(self) -> dict[int, str]:
        spellings: dict[int, str] = {}
        for wrote in self.written:
            step = wrote.step
            spellings.update((one.id, text) for one, text in zip(step.drafted, wrote.drafts, strict=True))
            spellings.update((one[0], text) for one, text in zip(step.residual_top, wrote.residual, strict=True))
            if wrote.end:
                spellings[step.tokens[-1].id] = wrote.end
        return spellings


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the pair before a race. bits, padding: see `compare`. pair, environment: plain facts.

    plain_seconds: of a plain step when the pair was loaded, where that was measured.
    """

    bits: bool = False
    padding: float = 1.0
    pair: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    plain_seconds: float | None = None

    @classmethod
    def of(cls, pair: Pair) -> Known:
        """A pair that is loaded on this machine."""
        from specdemo.environment import environment

        plain = pair.calibration and pair.calibration.verify[0]
        return cls(pair.bits_promised, pair.padding, pair.facts, environment(str(pair.target.device)), plain)

    @property
    def remote(self) -> bool:
        """Whether a lane ran on a server, which does not tell drafting from verifying, nor any probability."""
        return "clock" in self.pair

    @property
    def here(self) -> str | None:
        """The lane that ran on this machine while the other one ran on a server: they are not like for like."""
        here = self.pair.get(HERE)
        return here if here in tuple(Lane) else None

    def served(self, lane: Lane) -> bool:
        """Whether this lane ran on a server."""
        return self.remote and lane != self.here


@dataclass(frozen=True, slots=True)
class Settled:
    """A race that is over and better known than while it ran: all of it, in place of what was told before."""

    request: Request
    known: Known
    written: tuple[Wrote, ...]


class RaceRecord:
    """Both lanes' recordings, while they run and after. parting: what was measured where the texts part."""

    def __init__(self, prompt: str, request: Request, known: Known = Known()) -> None:
        self.prompt = prompt
        self.request = request
        self.known = known
        self.lanes = {lane: Recording(lane) for lane in Lane}
        self.parting: Parting | None = None

    @classmethod
    def of(cls, race: RaceFile) -> RaceRecord:
        """The race that left this file."""
        known = Known(race.bits, race.padding, race.speculative.pair, race.speculative.environment)
        record = cls(race.prompt, race.request, known)
        record.lanes = {lane: Recording.of(getattr(race, lane)) for lane in Lane}
        record.parting = race.parting
        return record

    def add(self, wrote: Wrote) -> None:
        """Take the next step of either lane."""
        self.lanes[wrote.lane].add(wrote)

    def settle(self, settled: Settled) -> None:
        """Take what is known now in place of what was taken while the race ran."""
        self.request, self.known = settled.request, settled.known
        self.lanes = {lane: Recording(lane) for lane in Lane}
        for wrote in settled.written:
            self.add(wrote)

    def metrics(self, lane: Lane) -> LaneMetrics:
        """A lane's figures."""
        return self.lanes[lane].metrics

    @property
    def comparison(self) -> Comparison:
        """The two lanes beside each other, at this moment."""
        return compare(
            self.metrics(Lane.BASELINE),
            self.metrics(Lane.SPECULATIVE),
            promised=identity_promised(self.request.rule, self.request.params.temperature),
            bits=self.known.bits,
            padding=self.known.padding,
            parting=self.parting,
            same_text=self._same_text,
        )

    @property
    def _same_text(self) -> bool:
        """Of lanes whose ids are not their own model's: whether they spell the same."""
        if not any(f"{lane} token ids" in self.known.pair for lane in Lane):
            return False
        baseline, speculative = ("".join(self.lanes[lane].texts) for lane in Lane)
        return baseline == speculative

    def file(self) -> RaceFile:
        """The race as it is kept on disk."""
        pair, environment = self.known.pair, self.known.environment
        return RaceFile(
            prompt=self.prompt,
            gamma=self.request.gamma,
            draft_length=self.request.draft_length,
            max_new_tokens=self.request.max_new_tokens,
            stop_strings=self.request.stop_strings,
            mode=self.request.mode,
            bits=self.known.bits,
            padding=self.known.padding,
            parting=self.parting,
            **{lane.value: one.trace(self.request, pair, environment) for lane, one in self.lanes.items()},
        )
