"""A link gives back exactly what it was made from, and nothing that no run could have."""

from __future__ import annotations

from urllib.parse import parse_qsl

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.ui.controls import Controls
from specdemo.ui.links import MOST_CHARACTERS, read_link, write_link

with gr.Blocks():
    _controls = Controls()
FRESH = _controls.read(tuple(block.value for block in _controls.inputs))

SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "gamma": st.integers(0, 16),
        "seed": st.integers(0, 2**31 - 1),
        "temperature": st.floats(0.05, 2),
        "rule": st.sampled_from(["shared noise", "rejection", "block"]),
        "stop_strings": st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=40),
        "draft_temperature": st.sampled_from(["", "0.5"]),
    },
)


@given(SETTINGS)
def test_what_a_link_was_made_from_is_what_it_gives(changed: dict[str, object]) -> None:
    values = FRESH | changed
    query = dict(parse_qsl(write_link(values, FRESH), keep_blank_values=True))
    if str(values["stop_strings"]).splitlines().__len__() > 8:
        return
    assert read_link(query, FRESH) == (None, values, None)


def test_a_fresh_page_needs_no_link() -> None:
    assert write_link(FRESH, FRESH) == ""


def test_the_first_refusal_is_told_and_the_rest_stands() -> None:
    prompt, values, refused = read_link({"gamma": "-1", "top_k": "7", "__theme": "dark", "prompt": "Hi"}, FRESH)
    assert (prompt, values) == ("Hi", FRESH | {"top_k": 7})
    assert refused.key == "refused.number" and refused.params["name"] == "@gamma"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400", "0x10", "", "1_0", "١", "9" * 5000])
def test_numbers_that_are_none_are_refused_or_are_in_range(text: str) -> None:
    _, values, refused = read_link({"gamma": text}, FRESH)
    assert refused is not None or 0 <= values["gamma"] <= 16


def test_a_prompt_that_is_too_long_is_left_out() -> None:
    prompt, _, refused = read_link({"prompt": "x" * (MOST_CHARACTERS + 1)}, FRESH)
    assert prompt is None and refused.key == "refused.linklong"
