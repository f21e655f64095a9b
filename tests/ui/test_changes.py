"""Whoever has a value of a run and is told its changes has the next one, as Gradio's own client applies them."""

from __future__ import annotations

import gradio as gr
from gradio_client.utils import apply_diff
from hypothesis import given
from hypothesis import strategies as st

from specdemo.ui.changes import changes

VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_the_changes_lead_from_any_value_to_any_other(old: object, new: object) -> None:
    assert apply_diff(old, changes(old, new)) == new


def test_gradios_own_still_do_not() -> None:
    old = {"steps": [{"drafts": ["a", "b", "c", "d"]}]}
    new = {"steps": [{"drafts": ["a", "b"]}]}
    gradios = [["delete", ["steps", 0, "drafts", 2], None], ["delete", ["steps", 0, "drafts", 1], None]]
    assert gr.utils.diff is changes or gr.utils.diff(old, new) == gradios
    assert apply_diff(old, gradios) != new and changes(old, new) == [["replace", [], new]]


def test_what_only_grows_is_sent_as_what_was_added() -> None:
    assert changes({"a": "bc", "d": [1]}, {"a": "bcd", "d": [1, 2]}) == [["append", ["a"], "d"], ["add", ["d", 1], 2]]
