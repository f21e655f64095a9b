"""How do the examples stand on the page? One chip each, and the line that sums the settings up."""

from __future__ import annotations

import json
from typing import Any

from specdemo.ui.parts import Part


def chips(examples: list[dict[str, Any]], summary: str) -> Part:
    """One chip for each example, and the line that sums the settings up (the value)."""
    shown = [{"label": example["label"], "shows": example["shows"]} for example in examples]
    return Part(
        "examples", summary, events=("pick",), examples=json.dumps(shown, ensure_ascii=False), elem_classes=["sd-part"]
    )
