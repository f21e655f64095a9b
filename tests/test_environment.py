"""What stands beside a figure: plain facts of this machine, and the names of those who were busy meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import torch

from specdemo.environment import busy_processes, environment


def test_the_facts_are_text_and_name_the_versions_that_run() -> None:
    facts = environment()
    assert all(isinstance(value, str) and value for value in facts.values())
    assert facts["torch"] == torch.__version__
    assert facts["torch threads"] == str(torch.get_num_threads())
    assert facts["device"] == "cpu"
    assert facts["cores"].split(" of ")[0] == str(len(os.sched_getaffinity(0)))


def test_the_number_of_threads_is_the_one_of_now() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert environment()["torch threads"] == "1"
    finally:
        torch.set_num_threads(before)


SPIN = "import time; end = time.time() + 30\nwhile time.time() < end: pass"
WAIT = "import time; time.sleep(30)"


def orphan(code: str) -> int:
    """Start a process that is not our child: one that we start starts it, and ends."""
    command = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {code!r}], stdout=-3).pid)"
    return int(subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, check=True).stdout)


def test_a_busy_process_is_named_and_an_idle_one_is_not() -> None:
    spinner, waiter = orphan(SPIN), orphan(WAIT)
    try:
        time.sleep(2)  # both have started
        busy = {one.pid: one for one in busy_processes()}
    finally:
        for pid in (spinner, waiter):
            os.kill(pid, signal.SIGKILL)
    assert busy[spinner].share > 0.05
    assert f"(process {spinner}, " in str(busy[spinner])
    assert waiter not in busy
    assert os.getpid() not in busy


def test_what_we_started_ourselves_is_not_a_stranger() -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN]) as child:
        try:
            time.sleep(1)
            assert child.pid not in {one.pid for one in busy_processes()}
        finally:
            child.kill()
