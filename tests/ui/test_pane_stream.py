"""A pane's value only grows, line by line, and holds nothing that a browser or Gradio could take for markup."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from specdemo.decoding.steps import Origin, Step, Stop, Token
from specdemo.race import Lane, Request
from specdemo.ui.panes import PaneStream
from specdemo.ui.worker import Wrote
from tests.ui.synthetic import Synthetic, without_times

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def wrote(texts: list[str]) -> Wrote:
    """A step of plain tokens with these texts."""
    tokens = tuple(Token(i, Origin.TARGET, 1.0) for i in range(len(texts)))
    return Wrote(Lane.BASELINE, Step(tokens=tokens), tuple(texts), ())


@given(st.lists(st.lists(TEXTS, max_size=4), max_size=6))
def test_the_value_only_grows_and_gives_every_text_back(steps: list[list[str]]) -> None:
    stream = PaneStream(Lane.BASELINE, 1)
    for texts in steps:
        before = stream.value
        stream.add(wrote(texts), 0.5)
        assert stream.value.startswith(before) and stream.value.endswith("\n")
    header, *lines = stream.value.split("\n")[:-1]
    assert json.loads(header) == {"run": 1, "lane": "baseline"}
    assert [[token[1] for token in json.loads(line)["k"]] for line in lines] == steps
    assert stream.value.encode("utf-8").decode("utf-8") == stream.value


@given(TEXTS)
def test_no_markup_and_no_translation_marker_is_sent(text: str) -> None:
    stream = PaneStream(Lane.BASELINE, 1)
    hostile = f"<script>{text}</script>__i18n__{{{text}"
    stream.add(wrote([hostile]), 0.5)
    assert "<" not in stream.value and "__i18n__{" not in stream.value
    assert json.loads(stream.value.split("\n")[1])["k"][0][1] == hostile


def test_unknown_probabilities_and_times_are_left_out() -> None:
    stream = PaneStream(Lane.BASELINE, 1)
    stream.add(Wrote(Lane.BASELINE, Step(tokens=(Token(7, Origin.UNKNOWN),), stop=Stop.EOS), ("x",), ()), None)
    assert json.loads(stream.value.split("\n")[1]) == {"t": None, "k": [[7, "x", "u"]], "e": 1}


def test_a_race_of_512_tokens_a_lane_costs_little() -> None:
    script = Synthetic(text="word " * 600)
    streams = {lane: PaneStream(lane, 1) for lane in Lane}
    for one in script.race(Request(prompt_ids=(1,), max_new_tokens=512)):
        texts = tuple(script.words[token.id] for token in one.step.tokens)
        drafts = tuple(script.words[drafted.id] for drafted in one.step.drafted)
        streams[one.lane].add(Wrote(one.lane, without_times(one.step), texts, drafts), 12.345)
    assert sum(len(json.dumps(stream.value)) for stream in streams.values()) < 100_000
