"""How does a link carry a prompt and settings? As a query of what differs from a fresh page, and back again, checked.

What a link asks for is treated as a stranger's word: a value that no run could have is refused by a sentence and the
setting stays as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

from specdemo.ui.controls import CHOICES, NUMBERS, SettingRefused, request

MOST_CHARACTERS = 20_000  # of a prompt in a link
OTHERS = {"lang", "view", "prompt"}  # what else of ours may stand in a link; Gradio's own begin with an underscore


def write_link(values: Mapping[str, Any], fresh: Mapping[str, Any]) -> str:
    """The settings that differ from those of a fresh page, as a query string without the question mark."""
    return urlencode({name: value for name, value in values.items() if value != fresh[name] and value is not None})


def read_link(
    query: Mapping[str, str],
    fresh: Mapping[str, Any],
    choices: Mapping[str, Collection[str]] = CHOICES,
    theirs: Collection[str] = (),
) -> tuple[str | None, dict[str, Any], SettingRefused | None]:
    """The prompt that a link carries (None: none), the settings it asks for, and the first thing that is refused.

    choices: see `request`. theirs: settings that are the servers' own.
    """
    values, refused = dict(fresh), None
    for name, text in query.items():
        if name in OTHERS or name.startswith("_"):
            continue
        try:
            if name not in fresh:
                raise SettingRefused("refused.linkname", {"name": name[:40]})
            if name in theirs:
                raise SettingRefused("refused.theirs", {"name": f"@{name}"})
            asked = values | {name: _number(text) if name in NUMBERS else text}
            request(asked, choices)
        except SettingRefused as error:
            refused = refused or error
        else:
            values = asked
    prompt = query.get("prompt")
    if prompt is not None and len(prompt) > MOST_CHARACTERS:
        sizes = {"n": f"{len(prompt):,}", "most": f"{MOST_CHARACTERS:,}"}
        prompt, refused = None, refused or SettingRefused("refused.linklong", sizes)
    return prompt, values, refused


def _number(text: str) -> float | str:
    """A number as it would come from its control; what is none stays text, which `request` refuses by name."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
