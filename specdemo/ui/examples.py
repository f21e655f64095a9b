"""Which prompts does the page offer? Those of assets/prompts/examples.json, each labelled by what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specdemo.ui.parts import Part

FILE = Path(__file__).parents[2] / "assets" / "prompts" / "examples.json"


def load_examples() -> list[dict[str, Any]]:
    """[{"task", "label": {language: ...}, "shows": {language: ...}, "prompt"}]"""
    return json.loads(FILE.read_text(encoding="utf-8"))


def chips(examples: list[dict[str, Any]], summary: str) -> Part:
    """One chip for each example, and the line that sums the settings up (the value)."""
    shown = [{"label": example["label"], "shows": example["shows"]} for example in examples]
    return Part(
        "examples", summary, events=("pick",), examples=json.dumps(shown, ensure_ascii=False), elem_classes=["sd-part"]
    )
