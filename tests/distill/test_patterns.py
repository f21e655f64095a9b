"""Every pattern fills, and what was pasted in is left as it is."""

from __future__ import annotations

import random

import pytest

from specdemo.distill.patterns import Filler, load_kinds, load_words
from specdemo.distill.sources import COLUMNS, Sources, as_csv, as_lines, as_table, records

WANTED_KINDS = {
    "chat", "question", "code_write", "code_continue", "code_explain", "code_fix", "code_other", "sql", "json",
    "translate", "list", "story", "summary", "maths", "table", "chinese", "rewrite", "classify", "turns",
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources()


def texts(pattern: str | list[str]) -> list[str]:
    return [pattern] if isinstance(pattern, str) else pattern


def test_every_kind_of_prompt_has_patterns():
    assert set(load_kinds()) == WANTED_KINDS


@pytest.mark.parametrize("kind", sorted(WANTED_KINDS))
def test_every_slot_of_every_pattern_is_filled(kind, sources):
    for seed, pattern in enumerate([*load_kinds()[kind].patterns, *load_kinds()[kind].endings]):
        for text in texts(pattern):
            filled = sources.filler.fill(text, random.Random(seed))
            assert filled and "\ue000" not in filled


@pytest.mark.parametrize("kind", sorted(WANTED_KINDS))
def test_a_kind_gives_hundreds_of_prompts(kind, sources):
    patterns = load_kinds()[kind].patterns
    assert len({str(pattern) for pattern in patterns}) >= 29  # each with slots and alternatives of its own
    rng = random.Random(1)
    prompts = {str([sources.filler.fill(t, rng, {}) for t in texts(rng.choice(patterns))]) for _ in range(800)}
    assert len(prompts) > 300


def test_every_word_of_every_list_fills(sources):
    for name, words in load_words().items():
        for word in words:
            assert sources.filler.fill(word, random.Random(0)) or name == "opening"


def test_every_follow_up_belongs_to_a_kind():
    follows = {name.removeprefix("follow_") for name in load_words() if name.startswith("follow_")}
    assert follows <= WANTED_KINDS | {"any"}


def test_a_numbered_slot_is_the_same_wherever_it_stands():
    filler = Filler({"city": [f"city{i}" for i in range(100)]}, {})
    a, b, c = filler.fill("<city1> <city1> <city2>", random.Random(4)).split()
    assert a == b != c


def test_ranges_and_alternatives():
    filler = Filler({"unit": ["<km|miles>"]}, {})
    for seed in range(50):
        number, unit = filler.fill("<-3..3> <unit>", random.Random(seed)).split()
        assert -3 <= int(number) <= 3 and unit in ("km", "miles")


def test_an_unknown_slot_is_an_error():
    with pytest.raises(KeyError, match="town"):
        Filler({"city": ["x"]}, {}).fill("in <town>", random.Random(0))


def test_slots_that_hold_themselves_are_an_error():
    with pytest.raises(ValueError, match="deep"):
        Filler({"a": ["<a>"]}, {}).fill("<a>", random.Random(0))


def test_what_was_pasted_in_is_left_as_it_is():
    text = "if a <b|c> d: print(<city>) <1..9>"
    assert (
        Filler({"city": ["x"]}, {"own": lambda rng: text}).fill("<own> in <city>", random.Random(0)) == f"{text} in x"
    )


def test_broken_code_differs_from_the_code_by_one_mistake(sources):
    different = 0
    for seed in range(40):
        whole, broken = sources.code(random.Random(seed)), sources.broken_code(random.Random(seed))
        different += whole != broken
        assert abs(len(whole) - len(broken)) < 12
    assert different > 35


def test_own_answers_are_pasted_once_there_are_some():
    sources, prose = Sources(), "A long tale of a lighthouse. " * 20
    sources.remember("story", prose)
    sources.remember("code_write", "Here it is:\n```python\n" + "print('lighthouse')\n" * 5 + "```\nDone.")
    rng = random.Random(0)
    assert sum(sources.passage(rng) == prose.strip() for _ in range(100)) > 40
    assert sum("lighthouse" in sources.code(rng) for _ in range(100)) > 40


def test_made_up_records_are_shown_alike_in_every_format():
    rows = records(random.Random(2), 3)
    assert set(rows[0]) <= set(COLUMNS)
    for shown in (as_csv(rows), as_table(rows), as_lines(rows)):
        assert all(str(value) in shown for row in rows for value in row.values())
    assert as_table(rows).count("\n") == 4
