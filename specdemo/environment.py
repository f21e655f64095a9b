"""What a figure was measured on: the machine, the versions, and who else was busy meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import torch

# The instruction sets that decide how fast these matrix products run, as /proc/cpuinfo spells them.
INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")
PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "gradio")


def environment(device: str | torch.device = "cpu") -> dict[str, str]:
    """Facts to print beside figures, every one of them text."""
    # Date and number of threads may change between two runs; the rest cannot.
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": _device_name(str(device)),
        "torch threads": str(torch.get_num_threads()),
        **_fixed_facts(),
    }


@cache
def _fixed_facts() -> dict[str, str]:
    cpu, flags = _cpu()
    sets = [name for name in INSTRUCTION_SETS if name in flags]
    facts = {
        "cpu": cpu,
        "cores": f"{_cores()} of {psutil.cpu_count(logical=True)}",
        "instruction sets": " ".join(sets) or "unknown",
        "kernels": _kernels(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
    }
    revision = _git_revision()
    return facts | ({"revision": revision} if revision else {})


@dataclass(frozen=True, slots=True)
class Busy:
    """Another process that takes processor time. share: of one core, over the time watched."""

    pid: int
    name: str
    share: float

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid}, {self.share:.0%} of a core)"


class Watch:
    """Who else is busy, from one look to the next. This process and those it started do not count."""

    def __init__(self) -> None:
        self._begin()

    def busy(self, threshold: float = 0.05) -> list[Busy]:
        """Processes that used more than `threshold` of a core since the last look, the busiest first."""
        before, watched = self._before, time.perf_counter() - self._since
        self._begin()
        ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        busy = []
        for process, used in self._before.items():
            share = (used - before.get(process, 0.0)) / watched  # one that began meanwhile used all of it meanwhile
            if share > threshold and process.pid not in ours:
                busy.append(Busy(process.pid, _name(process), share))
        return sorted(busy, key=lambda one: one.share, reverse=True)

    def _begin(self) -> None:
        self._since = time.perf_counter()
        self._before = dict(_processor_seconds())


def busy_processes(threshold: float = 0.05, seconds: float = 1.0) -> list[Busy]:
    """Other processes that use more than `threshold` of a core, watched for some seconds, the busiest first."""
    watch = Watch()
    time.sleep(seconds)
    return watch.busy(threshold)


def _processor_seconds() -> Iterator[tuple[psutil.Process, float]]:
    for process in psutil.process_iter():
        try:
            times = process.cpu_times()
        except psutil.Error:  # gone, or not ours to see
            continue
        yield process, times.user + times.system


def _name(process: psutil.Process) -> str:
    """What a person would recognise: the script rather than its interpreter."""
    try:
        command = process.cmdline()
        name = process.name()
    except psutil.Error:
        return "a process that has ended"
    module = command.index("-m") + 1 if "-m" in command[:-1] else None
    script = command[module] if module else next((Path(part).name for part in command[1:] if part.endswith(".py")), "")
    return f"{name} {script}".strip()


def _cpu() -> tuple[str, frozenset[str]]:
    """The processor's name and its flags, where the system tells them."""
    name, flags = platform.processor() or platform.machine(), frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return name, flags
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return facts.get("model name", name), frozenset(facts.get("flags", facts.get("Features", "")).split())


def _kernels() -> str:
    """The instruction set that torch's own kernels were chosen for, and what limits oneDNN's, if anything does."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA")
    return torch.backends.cpu.get_cpu_capability() + (f", oneDNN limited to {limit}" if limit else "")


def _cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count(logical=True)


def _device_name(device: str) -> str:
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.startswith("cuda") else device


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git_revision() -> str | None:
    """The commit that runs, with a + where files differ from it; None outside a git checkout."""
    git = ["git", "-C", str(Path(__file__).resolve().parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=5)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "") if commit.returncode == 0 else None
