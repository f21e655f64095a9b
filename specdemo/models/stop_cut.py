"""Where does a text that holds a stop string end? Apart from text.py: who only shows text needs no tokenizer."""

from __future__ import annotations

from collections.abc import Sequence


def cut_at_stop(text: str, strings: Sequence[str]) -> str:
    """The text up to the first stop string, which does not belong to it."""
    found = [at for string in strings if string and (at := text.find(string)) >= 0]
    return text[: min(found, default=len(text))]
