"""How does a race run on a GPU that is lent for seconds (ZeroGPU)? As one decorated generator, in a process of its own.

The `spaces` package forks that process and hands it the weights that were placed before the page stood. Arguments and
what is yielded are pickled: a Request there, Steps back. A pair itself crosses no border: each process sets one up over
the weights, warms up on the visitor's own prompt, and keeps the pair while it lives.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import gradio as gr

from specdemo.decoding.faults import DecodingFault
from specdemo.decoding.steps import Parting
from specdemo.metrics import identity_promised
from specdemo.models.errors import ModelUnavailable, PairRefused
from specdemo.models.pair_options import AUTO, COMBINED, NGRAM, PairSpec, split_drafter, usual_drafters
from specdemo.models.progress import Progress, silent
from specdemo.race import Lane, LaneStep, Request, RequestRefused, check, race
from specdemo.recording import Known, Scribe, Wrote
from specdemo.ui.desk import sentence
from specdemo.ui.engine import Engine, Fact
from specdemo.ui.own_engine import real_engine
from specdemo.ui.text import Sentence

if TYPE_CHECKING:
    from specdemo.models.pair import Pair, PairWeights

log = logging.getLogger(__name__)

ON = ("1", "t", "true")  # as the spaces package reads its own switch
PRECISION = "bf16"  # where none is asked for: nothing can be measured before there is a GPU
PLACED = ("fp32", "bf16", "fp16")  # int8 and int4 are made on the GPU itself

# Seconds that a run asks for. What is assumed stands until runs have been measured; whoever stays below it pays less.
START = 12  # packing the weights, probing them, a warm-up by every rule
MARGIN = 1.5
ASSUMED = 0.0012  # of a layer, for a token in both lanes: every kernel is launched by itself
MOST = 55  # a longer run ends there; with GRACE it is what ZeroGPU lends where nothing is said
GRACE = 5  # before ZeroGPU ends the process, the run ends itself with a sentence
CARRIED = 500_000_000  # parameters a second on their way to the GPU, which ZeroGPU counts
MEASURED = 8  # runs, of which the slowest counts
WARM_UP = 4  # tokens of each lane

Lender = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]
"""spaces.GPU."""


@dataclass(frozen=True, slots=True)
class Parted:
    """Where the lanes' texts part; the weights that can say it are in the other process."""

    parting: Parting | None


@dataclass(frozen=True, slots=True)
class Broke:
    """What ended the race there. An exception that left the generator would arrive as the name of its class."""

    error: Exception


@dataclass
class LentPair:
    """A pair as the page's process knows it. known: nothing measured, until a first run has told.

    paces: seconds for a token in both lanes, of the last runs. parting: of the last run.
    """

    weights: PairWeights
    on_gpu: Callable[[str, Request, int], Iterator[Any]]
    known: Known
    paces: deque[float]
    parting: Parting | None = None

    @property
    def tokenizer(self) -> Any:
        """The target's."""
        return self.weights.tokenizer

    @property
    def context(self) -> int:
        """Tokens that a prompt and its answer may take, as far as configurations tell; the other process knows."""
        target = self.weights.loaded.model.config.get_text_config(decoder=True)
        longest = getattr(target, "max_position_embeddings", None) or 1 << 20
        return min(longest, getattr(self.weights.drafting, "max_length", longest))

    def seconds(self, request: Request) -> int:
        """What a run of this request asks for. In either mode both lanes run to their ends."""
        layers = self.weights.loaded.model.config.get_text_config(decoder=True).num_hidden_layers
        pace = max(self.paces, default=ASSUMED * layers)
        return min(MOST, ceil(START + MARGIN * pace * (request.max_new_tokens + WARM_UP)))


def lender() -> Lender | None:
    """spaces.GPU on a ZeroGPU Space, else None. Before torch is imported: there the package stands in for CUDA."""
    if os.environ.get("SPACES_ZERO_GPU", "").lower() not in ON:
        return None
    try:
        import spaces
    except ImportError as error:
        sys.exit(f"This is a ZeroGPU Space, and its package `spaces` cannot be imported ({error}).")
    return spaces.GPU


def zero_spec(spec: PairSpec) -> PairSpec:
    """As it can be had there. Raises PairRefused."""
    precision = PRECISION if spec.target_precision == AUTO else spec.target_precision
    for one in (precision, spec.draft_precision or precision):
        if one not in PLACED:
            raise PairRefused(f"ZeroGPU has no GPU yet on which to make weights {one}: take {', '.join(PLACED)}.")
    return replace(spec, target_precision=precision, graphs=False)


def zero_engine(gpu: Lender, spec: PairSpec, models: Iterable[str] = (), progress: Progress = silent) -> Engine:
    """The engine whose races run through `gpu`; weights are placed now, in this thread, for all drafters there are.

    spec: from `zero_spec`. models: what visitors may type. Raises ModelUnavailable, PairRefused.
    """
    # The stand-in for CUDA is this thread's alone, and transformers would read weights in others.
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    weights = _placed(spec, models, progress)
    on_gpu = lent(gpu, weights)
    paces: deque[float] = deque(maxlen=MEASURED)
    pairs = {name: LentPair(one, on_gpu, Known(), paces) for name, one in weights.items()}

    def load(asked: PairSpec, progress: Progress, before: LentPair | None) -> LentPair:
        if asked.drafter not in pairs or replace(asked, drafter=spec.drafter, hub_token=None) != spec:
            raise PairRefused(
                f"On ZeroGPU a run takes what was loaded at the start: {spec.target} in {spec.target_precision}, with "
                f"one of the drafters {', '.join(pairs)}."
            )
        return pairs[asked.drafter]

    return replace(
        real_engine(),
        load=load,
        facts=_facts,
        known=lambda pair: pair.known,
        check=lambda pair, request: check(pair, request) or request,
        race=_race,
        part=lambda pair, *_: pair.parting,
    )


def _placed(spec: PairSpec, models: Iterable[str], progress: Progress) -> dict[str, PairWeights]:
    """By drafter, each one's weights once."""
    from specdemo.models.pair import load_weights

    placed = {spec.drafter: load_weights(spec, progress)}
    for name in (*usual_drafters(spec.target), *models, *(f"{COMBINED}{split_drafter(one)[1]}" for one in models)):
        if name in placed or name == f"{COMBINED}{None}":
            continue
        alike = (one for one in placed.values() if split_drafter(one.spec.drafter)[1] == split_drafter(name)[1])
        placed[name] = next(alike, placed[spec.drafter]).with_drafter(name, progress)
    return placed


def lent(gpu: Lender, weights: dict[str, PairWeights]) -> Callable[[str, Request, int], Iterator[Any]]:
    """The decorated generator: drafter, request and seconds in; a Known, LaneSteps, and Parted or Broke out."""
    pairs: dict[str, Pair] = {}  # of the process that this runs in

    def duration(drafter: str, request: Request, seconds: int) -> int:
        return seconds + GRACE + ceil(weights[drafter].loaded.parameters / CARRIED)

    @gpu(duration=duration)
    def on_gpu(drafter: str, request: Request, seconds: int) -> Iterator[Known | LaneStep | Parted | Broke]:
        until = time.monotonic() + seconds
        try:
            pair = pairs[drafter] = pairs.get(drafter) or _set_up(weights[drafter], pairs)
            yield Known.of(pair)
            yield from _raced(pair, request, until, seconds)
        except (RequestRefused, ModelUnavailable, PairRefused, DecodingFault) as error:
            yield Broke(error)
        except Exception as error:  # perhaps of the GPU: then this process can do no more
            log.exception("A race on the GPU failed.")
            yield Broke(RuntimeError(sentence(error)))
            raise  # so that the next run gets another one

    return on_gpu


def _set_up(weights: PairWeights, pairs: dict[str, Pair]) -> Pair:
    from specdemo.models.pair import set_up

    return set_up(weights, before=next(iter(pairs.values()), None))


def _raced(pair: Pair, request: Request, until: float, seconds: int) -> Iterator[LaneStep | Parted]:
    """Both lanes, warm from the first timed step, and where they part. Raises what a race raises."""
    from specdemo.decoding.draft_length import Levels
    from specdemo.decoding.parting import find_parting

    request = replace(request, reuse=False)  # what caches hold is of whichever process the last run had
    short = replace(request, max_new_tokens=min(WARM_UP, request.max_new_tokens))
    for _ in race(replace(pair, levels=Levels()), short):
        pass
    emitted: dict[Lane, list[int]] = {lane: [] for lane in Lane}
    steps = race(pair, request)
    try:
        for one in steps:
            emitted[one.lane].extend(token.id for token in one.step.tokens)
            yield one
            if time.monotonic() >= until:
                raise RequestRefused(
                    f"ZeroGPU lent the GPU for {seconds} s, and the run did not end within them: ask for fewer new "
                    "tokens, or run it again."
                )
    finally:
        steps.close()
    if identity_promised(request.rule, request.params.temperature):
        yield Parted(find_parting(pair.target, request.prompt_ids, request.params, *emitted.values()))


def _race(pair: LentPair, request: Request) -> Iterator[Wrote | Known]:
    """What the other process tells, spelled here; closing it stops the race there within a step."""
    from specdemo.models.text import Detokenizer, spelling

    scribes = {
        lane: Scribe(lane, Detokenizer(pair.tokenizer), lambda one: spelling(pair.tokenizer, one)) for lane in Lane
    }
    seconds, tally = pair.seconds(request), Tally()
    pair.parting = None
    told = pair.on_gpu(pair.weights.spec.drafter, request, seconds)
    try:
        for one in told:
            match one:
                case LaneStep(lane, step):
                    tally.add(lane, one.step.seconds, len(step.tokens))
                    yield scribes[lane].spell(step)
                case Known():
                    pair.known = one
                    yield one
                case Parted(parting):
                    pair.parting = parting
                case Broke(error):
                    raise error
        pair.paces.append(tally.pace)
    except gr.Error as error:
        raise RequestRefused(_said(error, seconds)) from error
    finally:
        told.close()


@dataclass
class Tally:
    """What a run has taken: seconds of both lanes, and tokens of each."""

    seconds: float = 0.0
    tokens: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(Lane, 0))

    def add(self, lane: Lane, seconds: float, tokens: int) -> None:
        """One step."""
        self.seconds += seconds
        self.tokens[lane] += tokens

    @property
    def pace(self) -> float:
        """Seconds for a token in both lanes."""
        return self.seconds / max(1, *self.tokens.values())


def _facts(pair: LentPair) -> list[Fact]:
    spec = pair.weights.spec
    drafter: Fact = ("drafter.ngram", {}) if spec.drafter == NGRAM else spec.drafter
    lent: Sentence = ("zero.lent", {})
    return [pair.weights.loaded.source.title, drafter, pair.weights.loaded.precision, lent]


def _said(error: gr.Error, seconds: int) -> str:
    """What `spaces` refuses or breaks off with, as a sentence; its own titles are all that tells them apart."""
    title, said = str(getattr(error, "title", "")), str(error.message).strip().rstrip(".")
    if "quota" in title or "credits" in title:
        return (
            f"ZeroGPU lends no GPU for the {seconds} s of this run: the quota is used up. Sign in to huggingface.co, "
            f"ask for fewer new tokens, or come back later ({said})."
        )
    if "duration" in title:
        return f"ZeroGPU does not lend a GPU for as long as this run asks, {seconds} s: ask for fewer new tokens."
    if "queue" in title or "No GPU was available" in said:
        return "No GPU of ZeroGPU was free for this run: try again in a minute."
    if "aborted" in said:
        return (
            f"ZeroGPU took the GPU back before the run had ended ({seconds} s were asked for): ask for fewer new "
            "tokens, or run it again."
        )
    return f"ZeroGPU could not run this ({said}): reload the page and run it again."
