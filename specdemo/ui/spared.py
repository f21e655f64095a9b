"""Which work does Gradio do all the time that nobody needs here? What can be spared of it, without changing an answer.

With a hundred visitors waiting it was most of what the server did, and the model and those who open the page waited
for it. Part of it was also a copy of what each visitor had typed and been answered, for links that this page has not.
"""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio import state_holder

EVENTS_REMEMBERED = "64"  # by Gradio, which sums all of them up for a monitor: its ten thousand are memory
SUMS_EVERY = str(10**9)  # events, in place of after each, by pandas; the monitor is off
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
    state_holder.SessionState = Session


def spare_looks(blocks: gr.Blocks) -> None:
    """To be called once its queue is made."""
    blocks._queue.sleep_when_free = LOOKS_SECONDS
    blocks._queue.progress_update_sleep_when_free = NOTES_SECONDS
