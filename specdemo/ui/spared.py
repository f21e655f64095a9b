"""Which work does Gradio do all the time that nobody needs here? What can be spared of it, without changing an answer.

With a hundred visitors waiting it was most of what the server did, and the model and those who open the page waited
for it. Part of it was also a copy of what each visitor had typed and been answered, for links that this page has not.
"""

from __future__ import annotations

import contextlib
import gc
import os
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio import state_holder
from gradio.components.api_component import Api

EVENTS_REMEMBERED = "64"  # by Gradio, which sums all of them up for a monitor: its ten thousand are memory
SUMS_EVERY = str(10**9)  # events, in place of after each, by pandas; the monitor is off
FUNCTIONS_REMEMBERED = 64
LOOKS_SECONDS = 0.01  # between two looks whether an event has come; a thousand looks a second are a tenth of a core
NOTES_SECONDS = 0.25  # the same for gr.Progress, which nothing here uses


class Session(state_holder.SessionState):
    """Of a visitor, without a copy of every component's configuration and last value."""

    def __init__(self, blocks: gr.Blocks) -> None:
        super().__init__(SimpleNamespace(default_config=blocks.default_config, blocks=()))

    def _update_config(self, key: int) -> None:
        """Nothing reads it."""

    def _update_value_in_config(self, key: int, value: Any) -> None:
        """Nor this."""


def spare() -> None:
    """To be called before the page's gr.Blocks is made."""
    os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", EVENTS_REMEMBERED)
    os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", SUMS_EVERY)
    # At every value of every run Gradio looks twice for matplotlib on the whole path; nothing here draws with it.
    gr.utils.MatplotlibBackendMananger = contextlib.nullcontext
    if not hasattr(gr.utils.get_type_hints, "cache_info"):  # read anew from a function's source for every call of it
        gr.utils.get_type_hints = lru_cache(FUNCTIONS_REMEMBERED)(gr.utils.get_type_hints)
    state_holder.SessionState = Session


def spare_hops(blocks: gr.Blocks, taken_as_they_are: tuple[type, ...]) -> None:
    """Values of these components reach a function, and leave it, without a thread for each that would change nothing.

    A call of the API has seventeen of them: a hundred at once kept everybody waiting for seconds.
    """
    plain = (*taken_as_they_are, Api)
    for fn in blocks.fns.values():
        fn.preprocess = fn.preprocess and not all(isinstance(one, plain) for one in fn.inputs)
        fn.postprocess = fn.postprocess and not all(isinstance(one, plain) for one in fn.outputs)


def spare_looks(blocks: gr.Blocks) -> None:
    """To be called once its queue is made."""
    blocks._queue.sleep_when_free = LOOKS_SECONDS
    blocks._queue.progress_update_sleep_when_free = NOTES_SECONDS


def spare_status(blocks: gr.Blocks, on: gr.components.Component) -> None:
    """To be called once its events are there. on: what shows the progress of each of them, which none here does.

    With every value of a run, the browser copies all properties of whatever has ever shown any: else of every control
    that was once filled in, a thousand copies a value and a fifth of the page's time.
    """
    for fn in blocks.fns.values():
        fn.show_progress_on = [on]


def spare_collections() -> None:
    """What stands by now stands for good: Python's collector passes over it from here on.

    Else it walks through all that was ever imported, now and then, and nobody is answered for a fifth of a second. No
    pair may be loaded yet, or its memory would never be had back.
    """
    gc.collect()
    gc.freeze()
