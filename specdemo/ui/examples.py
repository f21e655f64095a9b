"""How do the examples stand on the page, and what comes with one? A chip each, and settings where it needs its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specdemo.ui.parts import Part


def chips(examples: list[dict[str, Any]], summary: str) -> Part:
    """One chip for each example, and the line that sums the settings up (the value)."""
    shown = [{"label": example["label"], "shows": example["shows"]} for example in examples]
    return Part(
        "examples", summary, events=("pick",), examples=json.dumps(shown, ensure_ascii=False), elem_classes=["sd-part"]
    )


def settings_with(
    example: dict[str, Any], examples: list[dict[str, Any]], read: Mapping[str, Any], fresh: Mapping[str, Any]
) -> dict[str, Any]:
    """What to set when an example is picked: its own settings; those that the one before it came with go back.

    read: the settings now. fresh: what they began with. Settings that somebody has changed since stay.
    """
    wanted: dict[str, Any] = {}
    for came in (one.get("set", {}) for one in examples):
        if all(read[name] == value for name, value in came.items()):
            wanted |= {name: fresh[name] for name in came}
    return wanted | example.get("set", {})
