"""How is work that never changes its shape given to a device at once? Recorded as a graph, and replayed.

A small forward is hundreds of kernels, and on a GPU launching them one by one costs more than running them. What is
recorded reads and writes buffers that stay where they are and holds no number of the host's that changes: positions,
lengths and tokens are tensors. On a CPU there is nothing to gain, and a replay is the same call again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import torch

Work = Callable[[], None]
"""Static work: from buffers to buffers, the same operations over the same memory every time."""

Tell = Callable[[float | None, str], None]
"""tell(fraction, message): how far recording has come."""

SHORTEST_SPAN = 512  # keys that the shortest recording of a forward reads; the next reads twice as many


def silent(fraction: float | None, message: str) -> None:
    """A Tell for whom it does not concern."""


class Capture(Protocol):
    """Records work; what it returns does it again. Recording runs the work, too, whatever its buffers hold."""

    def __call__(self, work: Work) -> Work: ...


class CudaGraphs:
    """Work as CUDA graphs in one pool of memory: record the largest first, and the others find room in its.

    A later replay may overwrite what an earlier one left in the pool, so work leaves its results in buffers of its own.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._aside = torch.cuda.Stream(device)  # the same for all: what one leaves in the pool is found on its stream

    def __call__(self, work: Work) -> Work:
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._aside.wait_stream(current)
            with torch.cuda.stream(self._aside):
                work()  # libraries load their kernels and make their workspaces outside of the recording
            current.wait_stream(self._aside)
            graph = torch.cuda.CUDAGraph()
            # other threads may use the device meanwhile, as those of a page do
            with torch.cuda.graph(graph, self._pool, self._aside, capture_error_mode="thread_local"):
                work()
        return graph.replay


class Calls:
    """A replay is the same call over the same buffers: what a CPU can do of it, and what tests need."""

    def __call__(self, work: Work) -> Work:
        work()
        return work


def spans(capacity: int) -> list[int]:
    """How many keys recordings read, longest first: all of a cache of this capacity, and powers of two below that.

    A recording reads as many whatever is held, the surplus masked; with too few of them short texts would pay for long.
    One that reads nearly all is not worth its own.
    """
    shorter = [SHORTEST_SPAN]
    while 2 * shorter[-1] < capacity:
        shorter.append(2 * shorter[-1])
    return [capacity, *(span for span in reversed(shorter) if 4 * span <= 3 * capacity)]


def roomy(capacity: int, longest: int) -> int:
    """Room to make for so many tokens: another recording is due only when a text needs twice as much."""
    room = SHORTEST_SPAN
    while room < capacity:
        room *= 2
    return max(capacity, min(room, longest))


class Recordings:
    """Work recorded for every shape that comes up, and for every span of keys that it reads."""

    def __init__(self, capture: Capture, tell: Tell) -> None:
        self._capture, self._tell = capture, tell
        self._spans: list[int] = []
        self._recorded: dict[tuple[Hashable, int], Work] = {}

    def clear(self) -> None:
        """Forget all, before what they read and write is moved."""
        self._spans, self._recorded = [], {}

    def record(self, shapes: Sequence[Hashable], capacity: int, work: Callable[[Hashable, int], Work]) -> None:
        """Record work(shape, span) for a cache of this capacity; shapes come largest first."""
        todo = [(shape, span) for span in spans(capacity) for shape in shapes]
        for done, key in enumerate(todo):
            self._tell(done / len(todo), "Recording forwards as graphs")
            self._recorded[key] = self._capture(work(*key))
        self._spans = spans(capacity)[::-1]
        self._tell = silent  # whoever loads is told; a run that records again is another's

    def fitting(self, shape: Hashable, end: int) -> Work | None:
        """The replay of this shape that reads the fewest keys, `end` at least; None where none was recorded."""
        at = bisect_left(self._spans, end)
        return self._recorded.get((shape, self._spans[at])) if at < len(self._spans) else None
