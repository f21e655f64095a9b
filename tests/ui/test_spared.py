"""What is spared of Gradio's work is still where this Gradio does it, and nothing that is shown depends on it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import gradio
import pytest
from gradio import state_holder

from specdemo.ui import spared


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> gradio.Blocks:
    """A page whose queue is not made yet, over a Gradio that nothing was spared of."""
    monkeypatch.setattr(gradio.utils, "MatplotlibBackendMananger", SimpleNamespace)
    monkeypatch.setattr(state_holder, "SessionState", state_holder.SessionState)
    monkeypatch.setenv("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1")
    monkeypatch.delenv("GRADIO_ANALYTICS_CACHE_FREQUENCY")
    with gradio.Blocks() as blocks:
        gradio.Textbox("a prompt")
        spared.spare()
    return blocks


def test_no_value_is_set_about_with_a_search_for_matplotlib(blocks: gradio.Blocks) -> None:
    assert "utils.MatplotlibBackendMananger()" in Path(gradio.route_utils.__file__).read_text("utf-8")
    assert gradio.utils.MatplotlibBackendMananger is spared.contextlib.nullcontext


def test_the_queue_looks_seldom_and_sums_nothing_up(blocks: gradio.Blocks) -> None:
    blocks.queue()
    assert blocks._queue.sleep_when_free < spared.LOOKS_SECONDS and blocks._queue.ANAYLTICS_CACHE_FREQUENCY == 10**9
    spared.spare_looks(blocks)
    assert blocks._queue.sleep_when_free == spared.LOOKS_SECONDS


def test_a_session_holds_no_copy_of_what_a_visitor_typed(blocks: gradio.Blocks) -> None:
    blocks.queue()
    session = blocks.app.state_holder["somebody"]
    (prompt,) = (key for key in blocks.blocks if isinstance(blocks.blocks[key], gradio.Textbox))
    session._update_value_in_config(prompt, "typed")
    session._update_config(prompt)
    assert prompt in session and type(session) is spared.Session and session.config_values == {}
