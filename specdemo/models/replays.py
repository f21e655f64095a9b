"""Does this pair run as recorded graphs? Where the device takes them and nobody said no; else it says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specdemo.decoding.capture import Capture, CudaGraphs
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Runner
from specdemo.decoding.steps import Rule
from specdemo.drafters.captured import CapturedHead, CapturedModel, captured_model
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.head import HeadDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.errors import first_line
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.models.progress import Progress

if TYPE_CHECKING:
    from specdemo.models.pair import Pair

ROWS = range(1, MAX_GAMMA + 2)  # of a plain step and of every verification
ROOM = 1024  # tokens that are recorded for at the start; longer texts record again

Lanes = tuple[Runner, Runner, Drafter]
"""The target, its twin for the other lane, and the drafter."""


def capture_for(device: torch.device) -> Capture | None:
    """What records on this device; None where there is nothing to gain."""
    return CudaGraphs(device) if device.type == "cuda" else None


def replayed(wanted: bool, lanes: Lanes, progress: Progress) -> tuple[Lanes, str]:
    """The three with recorded forwards and draws, and what to say of it; "" where a device has no graphs.

    Where recording fails they come back as they are, and the sentence says why.
    """
    target, twin, drafter = lanes
    capture = capture_for(target.device)
    if capture is None:
        return lanes, ""
    if not wanted:
        return lanes, "off, as asked, every kernel is launched by itself"
    try:
        recorded = (
            _runner(target, drafter.aux_layers, capture, progress),
            _runner(twin, drafter.aux_layers, capture, progress),
            _drafter(drafter, capture, progress),
        )
        _record(recorded)
    except RuntimeError as error:  # of the driver, of a library, of memory: the eager engine may still run
        reason = _off(error)
        progress(None, f"CUDA graphs are {reason}.")
        for one in map(_inner, lanes):  # a cache that recording began may be half made
            runner = one.runner if isinstance(one, ModelDrafter) else one
            if isinstance(runner, LeanRunner):
                runner.kv.clear()
        return lanes, reason
    eager = [name for name, one in (("target's", recorded[0]), ("drafter's", recorded[2])) if not _is_recorded(one)]
    if eager:
        return recorded, f"on, but not for the {' and the '.join(eager)} forward: only the lean one is recorded"
    return recorded, "on, forwards and draws are recorded and replayed"


def prepare(pair: Pair, capacity: int, params: SamplingParams, rule: Rule | None) -> None:
    """Record what a run needs and the pair has not, off the lanes' clocks: room for so many tokens, its way of drawing.

    rule: None where nothing will be drafted. Where recording fails everything runs eagerly from now on, with caches
    that begin anew, and the pair's facts say why.
    """
    runners = [one for one in (pair.target, pair.target_twin) if isinstance(_inner(one), CapturedRunner)]
    drafter = _inner(pair.drafter)
    drafters = [drafter] if isinstance(drafter, CapturedModel | CapturedHead) else []
    try:
        for one in runners:
            one.prepare(capacity)
        for one in drafters if rule else ():
            one.prepare(capacity, params, rule is Rule.SHARED_NOISE)
    except RuntimeError as error:
        for one in (*map(_inner, runners), *drafters):
            one.stop_recording(_off(error))
    stopped = [one.stopped for one in map(_inner, runners) if one.stopped]  # perhaps by another pair over this target
    if stopped:
        pair.facts["graphs"] = stopped[0]


def _off(error: RuntimeError) -> str:
    return f"off, because recording failed ({first_line(error)}): every kernel is launched by itself, and slower"


def _inner(one: Runner | Drafter) -> Runner | Drafter:
    """What records, if anything does, in what only passes on."""
    if isinstance(one, EqualShapes):
        return _inner(one.runner)
    return _inner(one.model) if isinstance(one, CombinedDrafter) else one


def _runner(runner: Runner, aux_layers: tuple[int, ...], capture: Capture, progress: Progress) -> Runner:
    """The runner with recorded forwards that give these layers' outputs; any but a lean one as it is."""
    if isinstance(runner, EqualShapes):
        return EqualShapes(_runner(runner.runner, aux_layers, capture, progress), runner.shapes)
    if isinstance(runner, CapturedRunner) and (runner.stopped or runner.aux_layers != aux_layers):
        runner = runner.twin()  # recordings are of one cache, and the pair before may go on with it
    if isinstance(runner, LeanRunner):
        return CapturedRunner(runner, capture, ROWS, aux_layers, progress)
    return runner


def _drafter(drafter: Drafter, capture: Capture, progress: Progress) -> Drafter:
    if isinstance(drafter, CombinedDrafter):
        return CombinedDrafter(drafter.lookup, _drafter(drafter.model, capture, progress))
    if isinstance(drafter, HeadDrafter):
        return CapturedHead.of(drafter, capture, MAX_GAMMA, progress)
    if isinstance(drafter, ModelDrafter) and isinstance(drafter.runner, LeanRunner):
        return captured_model(drafter.runner, capture, MAX_GAMMA, progress)
    return drafter


def _is_recorded(one: Runner | Drafter) -> bool:
    inner = _inner(one)  # lookup runs on the host
    return isinstance(inner, CapturedRunner | CapturedModel | CapturedHead | NgramDrafter)


@torch.inference_mode()
def _record(lanes: Lanes) -> None:
    """Everything begins once, with room for what is usual, and is left empty."""
    target, twin, drafter = lanes
    room = min(ROOM, target.max_length, drafter.max_length)
    one = torch.zeros(1, dtype=torch.long, device=target.device)
    for runner in (target, twin):
        runner.begin(room)
    drafter.begin(one, 0, target.forward(one, 0, drafter.aux_layers).hidden, room)
    target.rewind(0)
    drafter.forget()
