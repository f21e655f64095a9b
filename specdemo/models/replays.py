"""Does this pair run as recorded graphs? Where the device takes them and nobody said no; else it says why not."""

from __future__ import annotations

import torch

from specdemo.decoding.capture import Capture, CudaGraphs
from specdemo.decoding.captured import CapturedRunner
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.forward import LeanRunner
from specdemo.decoding.runner import Runner
from specdemo.drafters.captured import CapturedHead, CapturedModel, captured_model
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.head import HeadDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.errors import first_line
from specdemo.models.pair_options import MAX_GAMMA
from specdemo.models.progress import Progress

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
        reason = f"off, because recording failed ({first_line(error)}): every kernel is launched by itself, and slower"
        progress(None, f"CUDA graphs are {reason}.")
        return lanes, reason
    eager = [name for name, one in (("target's", recorded[0]), ("drafter's", recorded[2])) if not _is_recorded(one)]
    if eager:
        return recorded, f"on, but not for the {' and the '.join(eager)} forward: only the lean one is recorded"
    return recorded, "on, forwards and draws are recorded and replayed"


def _runner(runner: Runner, aux_layers: tuple[int, ...], capture: Capture, progress: Progress) -> Runner:
    """The runner with recorded forwards that give these layers' outputs; any but a lean one as it is."""
    if isinstance(runner, EqualShapes):
        return EqualShapes(_runner(runner.runner, aux_layers, capture, progress), runner.shapes)
    if isinstance(runner, CapturedRunner) and runner.aux_layers != aux_layers:
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
    if isinstance(one, EqualShapes):
        return _is_recorded(one.runner)
    if isinstance(one, CombinedDrafter):
        return _is_recorded(one.model)
    return isinstance(one, CapturedRunner | CapturedModel | CapturedHead | NgramDrafter)  # lookup runs on the host


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
