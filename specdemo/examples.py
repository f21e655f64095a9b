"""Which prompts does the page offer? Those of assets/prompts/examples.json, each labelled by what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "assets" / "prompts" / "examples.json"


def load_examples() -> list[dict[str, Any]]:
    """[{"task", "label": {language: ...}, "shows": {language: ...}, "prompt", "set": {setting: value}}]

    "set" is there where what the example shows takes settings of its own, such as a draft that is too long.
    """
    return json.loads(FILE.read_text(encoding="utf-8"))
