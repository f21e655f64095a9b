"""Two lanes on one device, fairly clocked: a plain synchronous generator of picklable Steps; no thread, lock or Event.

A lane's clock runs only inside its own Steps. `race` always advances the lane whose own clock is behind, so both
stream live and at every moment the two are compared at the same lane time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING

from specdemo.decoding.faults import DecodingFault
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import DraftLength, Rule, Step
from specdemo.models.pair_options import MAX_GAMMA

if TYPE_CHECKING:
    from specdemo.models.pair import Pair


class Lane(StrEnum):
    """Which side of the page a Step belongs to."""

    BASELINE = "baseline"
    SPECULATIVE = "speculative"


class Mode(StrEnum):
    """How two lanes share one device."""

    RACED = "raced"  # always the lane whose own clock is behind
    ONE_AFTER_ANOTHER = "one after another"  # the baseline to its end, then the speculative lane


class RequestRefused(ValueError):
    """A request that cannot be run; the message is a sentence for a person, with the next step."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of both lanes. gamma: draft length, 0 to MAX_GAMMA; where draft_length moves it, the longest.

    reuse: what the caches still hold of the prompt's beginning is not run again, in either lane; a chat's next turn.
    """

    prompt_ids: tuple[int, ...]
    params: SamplingParams = SamplingParams()
    rule: Rule = Rule.SHARED_NOISE
    gamma: int = 5
    max_new_tokens: int = 128
    stop_strings: tuple[str, ...] = ()
    mode: Mode = Mode.RACED
    reuse: bool = False
    draft_length: DraftLength = DraftLength.FIXED


@dataclass(frozen=True, slots=True)
class LaneStep:
    """One Step and the lane it belongs to: what `race` yields."""

    lane: Lane
    step: Step


MAX_NEW_TOKENS = 8192
MAX_STOP_STRINGS = 8

_RANGES = {  # name: what it is called on the page, lowest, highest, the kind of number
    "temperature": ("The temperature", 0, 5, int | float),
    "draft_temperature": ("The draft temperature", 0, 5, int | float),
    "top_k": ("Top-k", 0, 1_000_000, int),
    "top_p": ("Top-p", 1e-6, 1, int | float),
    "min_p": ("Min-p", 0, 1, int | float),
    "repetition_penalty": ("The repetition penalty", 0.1, 10, int | float),
    "seed": ("The seed", -(2**63), 2**63 - 1, int),
}


def check(pair: Pair, request: Request) -> None:
    """Raise RequestRefused for a request that this pair cannot run, whatever came in."""
    check_settings(request)
    n = len(request.prompt_ids)
    if n == 0:
        raise RequestRefused("The prompt is empty for this model: write something that it has tokens for.")
    if n >= pair.context:
        raise RequestRefused(
            f"The prompt takes {n:,} tokens and this pair's context holds {pair.context:,}, the answer included: "
            f"shorten the prompt by at least {n - pair.context + 1:,} tokens."
        )


def check_settings(request: Request) -> None:
    """The part of `check` that needs no model: raise RequestRefused for settings that no lane can run."""
    params = request.params
    for name, limits in _RANGES.items():
        value = getattr(params, name)
        if name != "draft_temperature" or value is not None:
            _refuse_outside(value, *limits)
    if any(t is not None and 0 < t < 0.01 for t in (params.temperature, params.draft_temperature)):
        raise RequestRefused("A temperature this small overflows; take 0 for greedy decoding, or at least 0.01.")
    _refuse_outside(request.gamma, "The draft length γ", 0, MAX_GAMMA, int)
    _refuse_outside(request.max_new_tokens, "Max new tokens", 1, MAX_NEW_TOKENS, int)
    _refuse_outside(len(request.stop_strings), "The number of stop strings", 0, MAX_STOP_STRINGS, int)
    for value, kind, title in (
        (request.rule, Rule, "The rule"),
        (request.mode, Mode, "The mode"),
        (request.draft_length, DraftLength, "The draft-length policy"),
    ):
        if not isinstance(value, kind):
            raise RequestRefused(f"{title} must be one of {', '.join(kind)}, not {_shown(value)}.")


def _refuse_outside(value: object, title: str, lowest: float, highest: float, kind: type | UnionType) -> None:
    if isinstance(value, kind) and not isinstance(value, bool) and lowest <= value <= highest:  # never true of nan
        return
    what = "be a whole number" if kind is int else "lie"
    raise RequestRefused(f"{title} must {what} between {lowest:g} and {highest:g}, not {_shown(value)}.")


def _shown(value: object) -> str:
    """A value as a sentence can hold it: Python refuses to print an int of thousands of digits."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number that large"
    return repr(value)[:40]


def lanes(pair: Pair, request: Request) -> dict[Lane, Iterator[Step]]:
    """Both lanes, ready to be advanced, each with its own cache, sampler and end over the same weights."""
    # Here, because torch takes seconds to import and a replay, which knows lanes and requests, does not need it.
    from specdemo.decoding.autoregressive import autoregressive
    from specdemo.decoding.draft_length import policy
    from specdemo.decoding.ending import Ending, Limits
    from specdemo.decoding.speculative import speculative
    from specdemo.models.replays import prepare
    from specdemo.models.text import StopStrings

    limits = Limits(request.max_new_tokens, pair.context, pair.eos_ids)

    def ending() -> Ending:
        strings = request.stop_strings
        return Ending(limits, len(request.prompt_ids), StopStrings(pair.tokenizer, strings) if strings else None)

    ids, params = request.prompt_ids, request.params
    if not request.reuse:
        forget(pair)
    ends = {lane: ending() for lane in Lane}
    prepare(pair, len(ids) + ends[Lane.BASELINE].left + 1, params, request.rule if request.gamma else None)
    keep = held(pair, request) if request.reuse else 0
    return {
        Lane.BASELINE: autoregressive(pair.target, ids, params, ends[Lane.BASELINE], keep),
        Lane.SPECULATIVE: speculative(
            pair.target_twin,
            pair.drafter,
            ids,
            params,
            request.rule,
            policy(request.draft_length, request.gamma, pair.levels, pair.calibration),
            ends[Lane.SPECULATIVE],
            keep,
        ),
    }


def held(pair: Pair, request: Request) -> int:
    """How many of the prompt's first tokens need not be run, alike in both lanes.

    One less than what all caches have in common with the prompt: its last token is always run, for its logits, and a
    head's last row stands for the token behind it.
    """
    import torch

    ids = torch.tensor(request.prompt_ids, device=pair.target.device)
    caches = (pair.target, pair.target_twin, *([pair.drafter] if request.gamma else []))
    return max(0, min(cache.held(ids) for cache in caches) - 1)


def forget(pair: Pair) -> None:
    """Empty all caches at once, not as each is used: a run that is stopped, or never drafts, leaves some unused."""
    pair.target.rewind(0)
    pair.target_twin.rewind(0)
    pair.drafter.forget()


def _next(clocks: Mapping[Lane, float], running: Iterable[Lane]) -> Lane:
    """Who is behind. Who begins also pays for what the machine still does of a start: never the baseline."""
    return min(running, key=lambda lane: (clocks[lane], lane is Lane.BASELINE))


def race(pair: Pair, request: Request, only: Lane | None = None) -> Iterator[LaneStep]:
    """Run both lanes to their ends, or only one; closing the generator stops the model within one step.

    Raises GivenUp within a chunk of a prompt that nobody waits for any more (see decoding/given_up.py).
    A lane whose model gives what is not a number stops where it is, the other goes on; then the fault is raised.
    Raises MemoryShort where the device's memory runs out, and holds nothing of this race then but the pair's caches.
    """
    from specdemo.models.errors import MemoryShort
    from specdemo.models.memory import collect, is_out_of_memory

    check(pair, request)
    running = lanes(pair, request)
    running = running if only is None else {only: running[only]}
    clocks = dict.fromkeys(running, 0.0)
    short = False
    fault: DecodingFault | None = None
    try:
        while running:
            lane = _next(clocks, running) if request.mode is Mode.RACED else next(iter(running))
            try:
                step = next(running[lane])
            except DecodingFault as error:
                fault = fault or error
                del running[lane]
                continue
            clocks[lane] += step.seconds
            if step.stop:
                del running[lane]
            yield LaneStep(lane, step)
    except (RuntimeError, MemoryError) as error:
        short = is_out_of_memory(error)
        if not short:
            raise
    finally:
        for generator in running.values():
            generator.close()
    if short:  # said out here: inside, the error would keep the step's own tensors
        running.clear()
        collect()
        raise MemoryShort(
            f"The memory of {pair.target.device} ran out in the middle of the run ({len(request.prompt_ids):,} tokens "
            f"of prompt, up to {request.max_new_tokens:,} new ones, drafts of {request.gamma}).",
            "Lower max new tokens or γ, shorten the prompt, or load the models in int8 or int4.",
        )
    if fault is not None:
        raise fault
