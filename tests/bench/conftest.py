"""Fixtures for the benchmark: a tiny target on disk whose tokens are bytes, prompts for it, and a scripted watch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from specdemo.environment import Busy
from tests.tiny import tiny_llama


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of three layers with a token for each byte."""
    folder = tmp_path_factory.mktemp("tiny-target")
    tiny_llama().save_pretrained(folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts that fit a tiny context."""
    path = tmp_path_factory.mktemp("prompts") / "prompts.json"
    copying = [{"name": "abc", "text": "abcabcabc abcabc"}, {"name": "xyz", "text": "xyzzy xyzzy"}]
    path.write_text(json.dumps({"copying": copying, "other": [{"name": "chat", "text": "hello there"}]}), "utf-8")
    return path


class ScriptedWatch:
    """Reports, look by look, what it was told to; then nobody."""

    def __init__(self, *looks: list[Busy]) -> None:
        self.looks = list(looks)

    def busy(self, threshold: float) -> list[Busy]:
        return self.looks.pop(0) if self.looks else []


@pytest.fixture
def nobody() -> ScriptedWatch:
    """A quiet machine."""
    return ScriptedWatch()
