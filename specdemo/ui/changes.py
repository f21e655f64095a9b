"""What has changed between two values of a run, so that whoever has the first comes to the second?

Gradio sends a run's second value and those after it as changes. Where lists within lists become shorter, it counts each
removal once for every list around it: its client then removes others, and gives wrong words, or fails and waits for
ever.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

_gradios = gr.utils.diff


def changes(old: Any, new: Any) -> list[list[Any]]:
    """Gradio's changes; the new value as a whole where a list has become shorter."""
    found = _gradios(old, new)
    shorter = any(action == "delete" and isinstance(path[-1], int) for action, path, _ in found)
    return [["replace", [], new]] if shorter else found


def send_changes() -> None:
    """To be called before the page is launched."""
    gr.utils.diff = changes
