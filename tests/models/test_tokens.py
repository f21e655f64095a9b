"""The embedded target's token ids are those of SmolLM2's tokenizer, by its definition."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from specdemo.models.text import encode_chat
from tests.models.reference_tokenizer import GOLDENS, ReferenceTokenizer

pytestmark = pytest.mark.embedded
CASES = json.loads(GOLDENS.read_text("utf-8"))


@pytest.fixture(scope="module")
def reference(tokenizer: PreTrainedTokenizerBase) -> ReferenceTokenizer:
    """The definition in plain Python, over the same vocabulary and merges."""
    stored = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(stored["vocab"], key=stored["vocab"].get)
    return ReferenceTokenizer(tokens, [" ".join(merge) for merge in stored["merges"]])


def test_there_are_enough_goldens() -> None:
    assert len(CASES["texts"]) >= 30


@pytest.mark.parametrize("case", CASES["texts"], ids=lambda case: ascii(case["text"])[:40])
def test_golden_texts(tokenizer: PreTrainedTokenizerBase, case: dict) -> None:
    assert tokenizer.encode(case["text"], split_special_tokens=True) == case["ids"]


@pytest.mark.parametrize("case", CASES["chats"])
def test_golden_chats(tokenizer: PreTrainedTokenizerBase, case: dict) -> None:
    assert encode_chat(tokenizer, case["messages"]) == case["ids"]


def test_the_goldens_hold_what_is_known_without_any_program() -> None:
    """Each digit is a token; "    1\\n    22\\n" is four spaces, 1, newline and four spaces, 2, 2, newline."""
    ids = {case["text"]: case["ids"] for case in CASES["texts"]}
    assert len(ids["1234567890"]) == 10
    assert len(ids["    1\n    22\n"]) == 6
    assert ids["\n\n\n"] != [198, 198, 198]
    assert set(ids["<|im_end|>"]) & set(range(17)) == set()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from(" \n\t01aeE'sé你😀<|_>")), max_size=30))
def test_any_text_is_encoded_as_the_definition_says(
    tokenizer: PreTrainedTokenizerBase, reference: ReferenceTokenizer, text: str
) -> None:
    assert tokenizer.encode(text, split_special_tokens=True) == reference.encode(text)
