"""The three languages say the same things, with the same parameters, and every key the page uses exists."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from specdemo.decoding.steps import Why
from specdemo.examples import load_examples
from specdemo.ui.parts import STATIC
from specdemo.ui.text import LANGUAGES, STRINGS, say

ENGLISH = STRINGS["en"]


def parameters(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_every_sentence_with_its_parameters(language: str) -> None:
    assert STRINGS[language].keys() == ENGLISH.keys()
    for key, template in STRINGS[language].items():
        may_omit = {"accepted", "share"} if key == "same.live.note" else set()
        assert parameters(template) - may_omit <= parameters(ENGLISH[key]), key
        assert template.count("**") % 2 == 0, key


def test_every_key_that_templates_and_scripts_name_exists() -> None:
    named = set()
    for file in STATIC.glob("*.html"):
        named |= set(re.findall(r'data-(?:say|label|title)="([^"%]+)"', file.read_text("utf-8")))
    for file in STATIC.glob("*.js"):
        named |= set(re.findall(r'sd\.say\("([^"]+)"', file.read_text("utf-8")))
    assert named and named - ENGLISH.keys() == set()


@pytest.mark.parametrize("why", Why)
def test_why_a_step_drafted_so_much_is_said_everywhere(why: Why) -> None:
    assert f"tip.why.{why}" in ENGLISH and f"glass.why.{why}" in ENGLISH


def test_there_is_no_praise_and_no_letter_for_times() -> None:
    for template in ENGLISH.values():
        assert "!" not in template and "lossless" not in template.lower()
        assert not re.search(r"\}x\b", template)


def test_an_unknown_language_speaks_english() -> None:
    assert say("xx", "run") == "Run"


def test_examples_are_labelled_in_every_language_and_one_loses() -> None:
    examples = load_examples()
    for example in examples:
        assert example["prompt"].strip()
        assert example["label"].keys() == example["shows"].keys() == LANGUAGES.keys()
    assert any(example["shows"]["en"] == "loses" for example in examples)
