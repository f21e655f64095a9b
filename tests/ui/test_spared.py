"""What is spared of Gradio's work is still where this Gradio does it, and nothing that is shown depends on it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace

import gradio
import pytest
from gradio import state_holder
from gradio.components.api_component import Api

from specdemo.ui import spared
from specdemo.ui.desk import Desk
from specdemo.ui.page import Page
from specdemo.ui.parts import Part
from tests.ui.synthetic import Synthetic


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> gradio.Blocks:
    """A page whose queue is not made yet, over a Gradio that nothing was spared of."""
    monkeypatch.setattr(gradio.utils, "MatplotlibBackendMananger", SimpleNamespace)
    monkeypatch.setattr(gradio.utils, "get_type_hints", gradio.utils.get_type_hints)
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


def test_what_a_function_takes_is_looked_up_once(blocks: gradio.Blocks) -> None:
    def takes(visitor: gradio.Request, prompt: str) -> None: ...

    first = gradio.helpers.special_args(takes, ["a"], request=None)
    read = gradio.utils.get_type_hints.cache_info().misses
    assert gradio.helpers.special_args(takes, ["a"], request=None) == first == ([None, "a"], None, None, [])
    assert gradio.utils.get_type_hints.cache_info().misses == read


def test_no_thread_is_asked_for_values_that_it_would_not_change() -> None:
    page = Page(Desk(Synthetic().engine(), ("ngram", "same")))
    fns = {fn.api_name: fn for fn in page.blocks.fns.values()}
    for name in ("compare", "stream", "pairs", "health", "watch"):
        assert not fns[name].preprocess and not fns[name].postprocess, name
    assert fns["race"].preprocess, "a slider and a list look at what they are given"
    assert not fns["race"].postprocess and fns["restore"].postprocess
    for kind in (Api, Part):
        assert kind.preprocess(None, "<b>") == kind.postprocess(None, "<b>") == "<b>"


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


def test_what_stands_is_passed_over_by_the_collector_and_what_comes_later_is_not() -> None:
    class Ring:
        pass

    try:
        spared.spare_collections()
        assert gc.get_freeze_count() > 10_000
        ring = Ring()
        ring.self, gone = ring, weakref.ref(ring)
        del ring
        gc.collect()
        assert gone() is None
    finally:
        gc.unfreeze()


def test_no_event_shows_progress_on_what_it_fills() -> None:
    with gradio.Blocks() as blocks:
        box, stop = gradio.Textbox(), gradio.Button()
        box.change(lambda text: text, box, box)
        spared.spare_status(blocks, stop)
    (event,) = blocks.get_config_file()["dependencies"]
    assert event["outputs"] == [box._id] and event["show_progress_on"] == [stop._id]
