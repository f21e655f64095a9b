"""Every sentence of the page in English and in simplified and traditional Chinese.

A string is named by a key and filled with parameters, in Python by `say` and in the browser by `sd.say`, so that the
page changes its language without asking the server. `**` marks what is set in bold.
"""

from __future__ import annotations

from specdemo.ui.text import en, zh_cn, zh_tw
from specdemo.ui.text.below import SENTENCES

LANGUAGES = {"en": "English", "zh-CN": "简体中文", "zh-TW": "繁體中文"}
DEFAULT = "en"

STRINGS = {
    "en": en.STRINGS | {template: template for template in SENTENCES},
    "zh-CN": zh_cn.STRINGS | {template: simplified for template, (simplified, _) in SENTENCES.items()},
    "zh-TW": zh_tw.STRINGS | {template: traditional for template, (_, traditional) in SENTENCES.items()},
}


def say(language: str, key: str, **params: object) -> str:
    """The sentence of this key; an unknown language speaks English."""
    return STRINGS.get(language, STRINGS[DEFAULT])[key].format(**params)
