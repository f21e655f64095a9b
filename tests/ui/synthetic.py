"""A scripted engine for the page: two lanes with invented times over a text of one's choice, and no model.

Its race can be paced, held at any step, made to fail, and says when it was closed.
"""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specdemo.decoding.steps import Drafted, Origin, Parting, Rule, Step, Stop, Token, Verdict, Why
from specdemo.models.errors import ModelUnavailable
from specdemo.models.progress import Progress
from specdemo.race import Lane, LaneStep, Mode, Request, check
from specdemo.recording import Known, spelled
from specdemo.ui.conversation import Conversation
from specdemo.ui.engine import Engine

PLAIN = 0.0287  # seconds of a plain step
DRAFT, VERIFY, OTHER = 0.0041, 0.0314, 0.0006
END = "<|im_end|>"
FACTS = {"target": "Scripted model", "target precision": "fp32"}
MACHINE = {"date": "2026-05-14 09:30 UTC", "device": "cpu", "cpu": "Scripted processor", "torch threads": "2"}
WRONG = [" perhaps", " blue", " then", " =", " of", " new"]

STORY = """Here is a function that removes duplicates and keeps the original order:

```python
def unique(items):
    seen = set()
    result = []
    for item in items:
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result
```

How it works:

1. `seen` remembers every item that has already appeared.
2. `result` collects each item the first time it is met.
3. Looking up an item in a set takes constant time, so the whole function runs in linear time.

For example, `unique([3, 1, 3, 2, 1])` returns `[3, 1, 2]`.

If order does not matter, `list(set(items))` is shorter, but unordered."""


def pieces(text: str) -> list[str]:
    """A text cut into what could be tokens; joined they are the text again."""
    return re.findall(r"\s?[^\W\d_]{1,9}|\s?\d|\s?[^\w\s]{1,2}|\s?_|\s", text)


def endless_load(loading: threading.Event) -> Callable[..., None]:
    """An engine's `load` that tells progress until that ends it. loading: set once it has begun."""

    def load(spec: Any, progress: Progress, before: Any) -> None:
        loading.set()
        for part in itertools.count():
            progress(None, f"Loading part {part}")

    return load


@dataclass
class Synthetic:
    """What the scripted pair writes, and what a test wants to know of it.

    cut: the text as tokens of one's own; a token "half-..." gives no text, as the first bytes of a character do.
    pace: seconds slept for a second of a lane's clock. hold_at: the step (of both lanes together) before which the
    race waits for `go`. fails_at: the step at which it raises.
    """

    text: str = STORY
    parted: str | None = None  # what the speculative lane writes instead
    tie: bool = True  # whether rounding explains it
    bits: bool = False  # whether the same bits are promised
    padding: float = 1.0  # of the baseline's steps
    cut: list[str] | None = None
    agreement: float = 0.73
    pace: float = 0.0
    hold_at: int | None = None
    fails_at: int | None = None
    context: int = 2048
    load_error: str | None = None
    seed: int = 3
    go: threading.Event = field(default_factory=threading.Event)
    loading: threading.Event = field(default_factory=threading.Event)  # unset: loading waits for it
    held: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    steps: list[LaneStep] = field(default_factory=list)  # everything yielded by the last race
    words: list[str] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)  # what a cache would hold after the last race
    reused: int = 0

    def __post_init__(self) -> None:
        self.loading.set()

    def id_of(self, piece: str) -> int:
        """The id of a piece, a new one if need be."""
        if piece not in self.words:
            self.words.append(piece)
        return self.words.index(piece)

    def engine(self) -> Engine:
        """As the page wants it."""
        return Engine(
            choose=lambda spec, drafter, precision, target_precision, target, token: (target or drafter, precision),
            load=self._load,
            facts=lambda pair: ["Scripted model", pair[0], "fp32", "no device"],
            known=lambda pair: Known(
                self.bits, self.padding, {"target": "Scripted model", "drafter": pair[0]}, dict(MACHINE)
            ),
            context=lambda pair: self.context,
            encode=self._encode,
            check=lambda pair, request: check(_Pair(self.context), request) or request,
            race=lambda pair, request: spelled(
                self.race(request), lambda: _Speller(self.words), self.words.__getitem__
            ),
            part=self._part,
        )

    def _encode(self, pair: Any, prompt: str, before: Conversation, thinking: bool | None) -> list[int]:
        """The turns before it, as they were encoded and written, and the prompt."""
        said = [self.id_of(piece) for piece in pieces(prompt) if piece.isprintable() or piece.isspace()]
        if not said or not before.turns:
            return said
        texts = [text for turn in before.turns for text in (turn.asked, turn.answered)]
        return [self.id_of(piece) for text in texts for piece in pieces(text)] + said

    def _load(self, spec: tuple[str, str], progress: Progress, before: Any) -> tuple[str, str]:
        progress(None, "Finding the scripted model.")
        if not self.loading.is_set():
            progress(0.4, "Downloading the scripted model, 37 of 93 MB.")
            self.loading.wait(30)
        if self.load_error is not None:
            raise ModelUnavailable(self.load_error)
        if spec[0] not in ("ngram", "good-draft"):
            raise ModelUnavailable(f"No model is called {spec[0]}: give a folder or a hub id.")
        return spec

    def _part(self, pair: Any, request: Request, baseline: Sequence[int], other: Sequence[int]) -> Parting | None:
        if list(baseline) == list(other):
            return None
        at = next((i for i, (a, b) in enumerate(zip(baseline, other, strict=False)) if a != b), 0)
        return Parting(at, baseline[at], other[at], 0.06 if self.tie else 1.9, tie=self.tie)

    def race(self, request: Request) -> Iterator[LaneStep]:
        """Both lanes, always the one whose clock is behind."""
        self.closed.clear()
        pairs = list(zip(self.cached, request.prompt_ids, strict=False))
        common = next((i for i, (held, asked) in enumerate(pairs) if held != asked), len(pairs))
        self.reused = max(0, common - 1) if request.reuse else 0
        self.cached = [*request.prompt_ids, *self._ids(self.text)[: request.max_new_tokens]]
        self.steps = []
        self.asked = request
        running = {Lane.BASELINE: self._baseline(request), Lane.SPECULATIVE: self._speculative(request)}
        clocks = dict.fromkeys(running, 0.0)
        try:
            while running:
                lane = min(running, key=clocks.get) if request.mode is Mode.RACED else next(iter(running))
                if self.hold_at is not None and len(self.steps) >= self.hold_at:
                    self.held.set()
                    self.go.wait(30)
                if self.fails_at is not None and len(self.steps) >= self.fails_at:
                    raise RuntimeError("The scripted device was unplugged. Plug it in.")
                step = next(running[lane])
                time.sleep(self.pace * step.seconds)
                clocks[lane] += step.seconds
                if step.stop:
                    del running[lane]
                self.steps.append(LaneStep(lane, step))
                yield self.steps[-1]
        finally:
            self.closed.set()

    def _ids(self, text: str) -> list[int]:
        return [self.id_of(piece) for piece in [*(self.cut or pieces(text)), END]]

    def _baseline(self, request: Request) -> Iterator[Step]:
        ids = self._ids(self.text)[: request.max_new_tokens]
        for i, token_id in enumerate(ids):
            yield Step(
                tokens=(Token(token_id, Origin.TARGET, 1.0, None, 0.83),),
                why=Why.PLAIN if i else Why.PREFILL,
                reused=0 if i else self.reused,
                draft_seconds=0.0,
                verify_seconds=PLAIN if i else 0.064,
                other_seconds=0.0,
                stop=self._stop(token_id, i + 1, request),
            )

    def _speculative(self, request: Request) -> Iterator[Step]:
        draws = random.Random(self.seed)
        ids = self._ids(self.parted or self.text)[: request.max_new_tokens]
        yield Step(
            tokens=(Token(ids[0], Origin.TARGET, 1.0, None, 0.83),),
            why=Why.PREFILL,
            reused=self.reused,
            draft_seconds=0.004,
            verify_seconds=0.066,
            other_seconds=0.001,
            stop=self._stop(ids[0], 1, request),
        )
        at = 1
        while at < len(ids):
            step = self._round(ids, at, request, draws)
            at += len(step.tokens)
            yield step

    def _round(self, ids: list[int], at: int, request: Request, draws: random.Random) -> Step:
        """One draft and its verification."""
        gamma = min(request.gamma, len(ids) - at - 1)
        agreed = next((i for i in range(gamma) if draws.random() > self.agreement), gamma)
        drafted = [Drafted(ids[at + i], Verdict.ACCEPTED, 0.81, 1.0) for i in range(agreed)]
        for i in range(agreed, gamma):
            wrong = self.id_of(draws.choice(WRONG))
            verdict = Verdict.REFUSED if i == agreed else Verdict.UNREACHED
            drafted.append(Drafted(wrong, verdict, 0.42, 0.0 if i == agreed else None))
        own = Origin.TARGET if not gamma else Origin.BONUS if agreed == gamma else Origin.CORRECTED
        tokens = [Token(ids[at + i], Origin.ACCEPTED, 1.0, 0.81, 0.93) for i in range(agreed)]
        tokens.append(Token(ids[at + agreed], own, 1.0, None, 0.74))
        step = Step(
            tokens=tuple(tokens),
            drafted=tuple(drafted),
            gamma=request.gamma,
            why=Why.POLICY if gamma == request.gamma else Why.BUDGET,
            draft_seconds=DRAFT if gamma else 0.0,
            verify_seconds=VERIFY,
            other_seconds=OTHER,
            stop=self._stop(tokens[-1].id, at + len(tokens), request),
        )
        return self._drawn(step, request, draws) if request.params.temperature else step

    def _drawn(self, step: Step, request: Request, draws: random.Random) -> Step:
        """The same step as sampling would have made it: with draws and chances that give these verdicts."""
        chances = {Verdict.ACCEPTED: (0.5, 0.4), Verdict.REFUSED: (0.52, 0.21), Verdict.UNREACHED: (0.61, 0.3)}
        drafted, own, shared = [], step.tokens[-1].id, request.rule is Rule.SHARED_NOISE
        for one in step.drafted:
            q, p = chances[one.verdict]
            stood, chance, u = one.verdict is Verdict.ACCEPTED, p / q, draws.random()
            draw = (one.id if stood else own) if shared else chance * u if stood else chance + (1 - chance) * u
            drafted.append(replace(one, q=q, p=p, draw=draw, chance=None if shared else chance))
        tokens = [replace(token, p=0.4, q=token.q and 0.5) for token in step.tokens]
        tops = [(own, 0.82), *zip(map(self.id_of, WRONG), (0.09, 0.05, 0.02), strict=False)]
        return replace(
            step,
            tokens=tuple(tokens),
            drafted=tuple(drafted),
            residual_top=() if shared or not drafted else tuple(tops),
            residual_mass=0.45 if not shared and step.judged > step.accepted else None,
        )

    def _stop(self, token_id: int, emitted: int, request: Request) -> Stop | None:
        if self.words[token_id] == END:
            return Stop.EOS
        return Stop.BUDGET if emitted == request.max_new_tokens else None


@dataclass
class _Pair:
    context: int


class _Speller:
    """Texts by id; the end of text and the first half of a character have none."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def add(self, token_id: int) -> str:
        word = self._words[token_id]
        return "" if word == END or word.startswith("half-") else word

    def flush(self) -> str:
        return ""


def without_times(step: Step) -> Step:
    """A step of an engine that does not tell its times."""
    return replace(step, draft_seconds=None, verify_seconds=None, other_seconds=None)
