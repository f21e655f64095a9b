"""A lane's own clock: splits a step into draft, verify and other, and runs only inside the lane's steps.

On a CPU it reads the monotonic clock. On CUDA the parts are device events and the whole is the host's time, so that no
part costs a synchronisation of its own: the round's one read has waited for them. What a drafter still gives the device
behind it is waited for at the end, so that no lane begins behind the other's work.
"""

from __future__ import annotations

from time import perf_counter

import torch


def settle(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """start() at the top of a step, lap(part) after each part, times() once the round's results are on the host."""

    def __init__(self, device: torch.device):
        self._on_device = device.type == "cuda"
        self._begun = 0.0
        self._laps: list[tuple[str, float | torch.cuda.Event]] = []

    def start(self) -> None:
        """A step begins."""
        self._begun = perf_counter()
        self._laps = [("", self._mark())]

    def lap(self, part: str) -> None:
        """What ran since the last mark was `part`: "draft", "verify", or anything else for other."""
        self._laps.append((part, self._mark()))

    def times(self) -> dict[str, float]:
        """draft_seconds, verify_seconds, other_seconds of the step, adding up to the whole."""
        if self._on_device:
            self._laps[-1][1].synchronize()
        whole = perf_counter() - self._begun
        parts = {"draft": 0.0, "verify": 0.0}
        for (_, earlier), (part, later) in zip(self._laps, self._laps[1:], strict=False):
            if part in parts:
                parts[part] += earlier.elapsed_time(later) / 1000 if self._on_device else later - earlier
        other = max(0.0, whole - parts["draft"] - parts["verify"])
        return {"draft_seconds": parts["draft"], "verify_seconds": parts["verify"], "other_seconds": other}

    def _mark(self) -> float | torch.cuda.Event:
        if not self._on_device:
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
