"""Every sentence of the page in English and in simplified and traditional Chinese.

A string is named by a key and filled with parameters, in Python by `say` and in the browser by `sd.say`, so that the
page changes its language without asking the server. `**` marks what is set in bold.
"""

from __future__ import annotations

from typing import Any

from specdemo.ui.text import en, lab, remote, zero, zh_cn, zh_tw
from specdemo.ui.text.below import SENTENCES

Sentence = tuple[str, dict[str, Any]]
"""A key and its parameters, as they travel to the page."""

LANGUAGES = {"en": "English", "zh-CN": "简体中文", "zh-TW": "繁體中文"}
DEFAULT = "en"

STRINGS = {
    "en": en.STRINGS | lab.ENGLISH | remote.ENGLISH | zero.ENGLISH | {template: template for template in SENTENCES},
    "zh-CN": zh_cn.STRINGS
    | lab.SIMPLIFIED
    | remote.SIMPLIFIED
    | zero.SIMPLIFIED
    | {template: simplified for template, (simplified, _) in SENTENCES.items()},
    "zh-TW": zh_tw.STRINGS
    | lab.TRADITIONAL
    | remote.TRADITIONAL
    | zero.TRADITIONAL
    | {template: traditional for template, (_, traditional) in SENTENCES.items()},
}


def say(language: str, key: str, **params: object) -> str:
    """The sentence of this key; an unknown language speaks English."""
    return STRINGS.get(language, STRINGS[DEFAULT])[key].format(**params)


def tell(language: str, sentence: Sentence) -> str:
    """A sentence as the browser fills it: "@key" stands for the words of that key, a pair for its own sentence."""
    key, params = sentence
    return say(language, key, **{name: _word(language, value) for name, value in params.items()})


def _word(language: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        return tell(language, value)
    known = isinstance(value, str) and value.startswith("@") and value[1:] in STRINGS[DEFAULT]
    return say(language, value[1:]) if known else str(value)
