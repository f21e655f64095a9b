"""Prompts for worlds and tiny models."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdemo.lab.prompt_files import PromptSet, read_set
from tests.bench.conftest import tiny_target  # noqa: F401


@pytest.fixture
def prompts(tmp_path: Path) -> PromptSet:
    """Two kinds."""
    path = tmp_path / "prompts.jsonl"
    lines = (
        '{"kind": "chat", "prompt": "hello"}',
        '{"kind": "chat", "prompt": "you"}',
        '{"kind": "code", "prompt": "x"}',
    )
    path.write_text("\n".join(lines), "utf-8")
    return read_set(str(path))
