"""Stands in for spaces.GPU where there is no ZeroGPU: each call runs in a forked process, behind pickles.

It keeps to what the package does: a closed generator is told, and closed there after its next value; an exception
arrives as the name of its class; a process that dies is an aborted task. Errors are Gradio's, with the same titles.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

import gradio as gr

FORK = multiprocessing.get_context("fork")
WORKER = "ZeroGPU worker error"


class Forked:
    """asked: seconds, call by call. ended: how the last call's generator ended there. refuses: instead of any call."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.ended = ""
        self.refuses: gr.Error | None = None
        self.process: Any = None

    def __call__(self, *, duration: Callable[..., float]) -> Callable[..., Any]:
        def decorated(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def call(*args: Any) -> Iterator[Any]:
                self.asked.append(duration(*args))
                if self.refuses is not None:
                    raise self.refuses
                yield from self._run(task, args)

            return call

        return decorated

    def _run(self, task: Callable[..., Iterator[Any]], args: tuple[Any, ...]) -> Iterator[Any]:
        ours, theirs = FORK.Pipe()
        stop = FORK.Event()
        self.ended = "died"
        self.process = FORK.Process(target=_there, args=(task, theirs, ours, stop), daemon=True)
        self.process.start()
        theirs.close()
        ours.send_bytes(pickle.dumps(args))
        try:
            for kind, value in iter(lambda: pickle.loads(ours.recv_bytes()), None):
                if kind == "value":
                    yield value
                    continue
                self.ended = kind
                if kind == "raised":
                    raise gr.Error(value, title=WORKER)
                return
        except EOFError:
            raise gr.Error("GPU task aborted", title=WORKER) from None
        except GeneratorExit:
            stop.set()
            while self.ended == "died":
                kind, _ = pickle.loads(ours.recv_bytes())
                self.ended = self.ended if kind == "value" else kind
            raise
        finally:
            ours.close()
            self.process.join()


def _there(task: Callable[..., Iterator[Any]], ours: Connection, other: Connection, stop: Event) -> None:
    other.close()
    generator = task(*pickle.loads(ours.recv_bytes()))
    how: tuple[str, Any] = ("done", None)
    try:
        for value in generator:
            if stop.is_set():
                generator.close()
                how = ("closed", None)
                break
            ours.send_bytes(pickle.dumps(("value", value)))
    except Exception as error:
        how = ("raised", type(error).__name__)
    ours.send_bytes(pickle.dumps(how))
