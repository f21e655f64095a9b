"""A race as a file: it comes back exactly, and a file that is no race is refused with a sentence naming the key."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdemo import trace_files
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Origin, Parting, Rule, Step, Token, Trace
from specdemo.race import Mode
from specdemo.trace_files import RaceFile, TraceFileRefused
from tests.steps_strategy import traces

ASKED = {"prompt": "", "gamma": 5, "max_new_tokens": 8, "mode": Mode.RACED}
RACES = st.builds(
    RaceFile,
    baseline=traces("baseline"),
    speculative=traces("speculative"),
    prompt=st.text(max_size=5),
    gamma=st.integers(),
    max_new_tokens=st.integers(),
    mode=st.sampled_from(Mode),
    padding=st.floats(),
    parting=st.none()
    | st.builds(Parting, st.integers(), st.none() | st.integers(), st.none(), st.floats(), tie=st.booleans()),
)


def exactly(value: object) -> object:
    """A value in a form that compares floats by their bits and tells types apart."""
    if is_dataclass(value):
        return type(value), [exactly(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, tuple):
        return tuple, [exactly(item) for item in value]
    return (type(value), value) if isinstance(value, Enum) else (type(value).__name__, value)


def a_race() -> dict:
    """A small valid document, to be spoiled."""
    step = Step((Token(5, Origin.TARGET, p=0.5),), verify_seconds=0.1)
    lanes = [Trace(lane, (1, 2), SamplingParams(), Rule.SHARED_NOISE, (step,), ("a",)) for lane in trace_files.LANES]
    return json.loads(trace_files.dump(RaceFile(baseline=lanes[0], speculative=lanes[1], **ASKED)))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(RACES)
def test_every_race_comes_back_bit_for_bit(race: RaceFile) -> None:
    back = trace_files.parse(trace_files.dump(race))
    assert exactly(back.baseline) == exactly(race.baseline)
    assert exactly(back.speculative) == exactly(race.speculative)
    assert exactly(back.parting) == exactly(race.parting) and exactly(back.padding) == exactly(race.padding)
    assert (back.prompt, back.gamma, back.max_new_tokens, back.mode) == (
        race.prompt,
        race.gamma,
        race.max_new_tokens,
        race.mode,
    )


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=20)
@given(RACES)
def test_the_file_is_standard_json(race: RaceFile) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(trace_files.dump(race), parse_constant=refuse)


def test_a_saved_race_is_loaded(tmp_path: Path) -> None:
    race = trace_files.parse(json.dumps(a_race()))
    trace_files.save(tmp_path / "race.json", race)
    assert trace_files.load(tmp_path / "race.json") == race
    assert [path.name for path in tmp_path.iterdir()] == ["race.json"]


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "race.json").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        trace_files.save(tmp_path / "race.json", trace_files.parse(json.dumps(a_race())))
    assert (tmp_path / "race.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["race.json"]


def spoiled(path: list[str | int], value: object) -> str:
    """The document with one value replaced, or removed by ..."""
    document = a_race()
    place = document
    for part in path[:-1]:
        place = place[part]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (["speculative"], ..., "At speculative: the key is missing."),
        (["baseline", "rule"], ..., "At baseline.rule: the key is missing."),
        (
            ["baseline", "steps", 0, "tokens", 0, "id"],
            "x",
            "At baseline.steps[0].tokens[0].id: input should be a valid",
        ),
        (["baseline", "steps", 0, "colour"], 1, "At baseline.steps[0].colour: no race has such a key."),
        (["colour"], 1, "At colour: no race has such a key."),
        (["baseline", "rule"], "always yes", "At baseline.rule: input should be 'shared noise', 'rejection' or"),
        (["baseline", "version"], 1, "At baseline.version: the file is of version 1; this program reads 2."),
        (["baseline", "texts"], ["a", "b"], "At baseline.texts: 2 texts for 1 emitted tokens."),
        (["baseline", "lane"], "speculative", "At baseline.lane: the trace says that it is of lane 'speculative'."),
        (["baseline", "\x1b[2J"], 1, r"At baseline.'\x1b[2J': no race has such a key."),
        (["baseline", "rule"], "y" * 10_000, "not 'yyy"),
    ],
)
def test_a_bad_key_is_named(path: list[str | int], value: object, sentence: str) -> None:
    with pytest.raises(TraceFileRefused) as refusal:
        trace_files.parse(spoiled(path, value))
    assert sentence in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"null", b"7", b"[" * 100_000, b"\xff\xfe", b'{"a":' + b"9" * 10_000 + b"}", b'{"baseline": 1e999}'],
)
def test_hostile_bytes_get_a_sentence(data: bytes) -> None:
    with pytest.raises(TraceFileRefused, match=r"^(The file|At ).*\.$"):
        trace_files.parse(data)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
PLACES = [
    ["baseline"],
    ["baseline", "steps"],
    ["baseline", "steps", 0],
    ["baseline", "steps", 0, "tokens", 0],
    ["baseline", "steps", 0, "residual_top"],
    ["speculative", "params"],
    ["speculative", "params", "seed"],
    ["speculative", "version"],
    ["speculative", "texts"],
    ["speculative", "environment"],
]


@settings(deadline=None)
@given(st.sampled_from(PLACES), JSON_VALUES)
def test_any_value_in_any_place_is_read_or_refused_with_a_sentence(path: list[str | int], value: object) -> None:
    sentence = ""
    try:
        trace_files.parse(spoiled(path, value))
    except TraceFileRefused as refusal:
        sentence = str(refusal)
    assert sentence == "" or (sentence.endswith(".") and sentence.isprintable())


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(trace_files.LARGEST + 1)
    with pytest.raises(TraceFileRefused, match="larger than 256 MiB"):
        trace_files.load(path)
