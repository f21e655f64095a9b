"""How does the target invent a prompt? It goes on writing a user's turn that its chat template and an opening begin."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

MARK = "\u241fhere\u241f"
SHORTEST = 12  # characters of a prompt worth answering


def opened_turn(tokenizer: PreTrainedTokenizerBase, opening: str) -> list[int] | None:
    """Ids of a user's turn up to and with the opening; None where the model has no chat template to go by."""
    parts = around_user_turn(tokenizer)
    if parts is None:
        return None
    return tokenizer.encode(parts[0], add_special_tokens=False) + tokenizer.encode(
        opening, add_special_tokens=False, split_special_tokens=True
    )


def invented_prompt(tokenizer: PreTrainedTokenizerBase, opening: str, written: Sequence[int]) -> str | None:
    """The prompt the target wrote behind the opening; None when it is too short to be one."""
    _, footer = around_user_turn(tokenizer)
    text = opening + tokenizer.decode(written, skip_special_tokens=False)
    for end in (footer, *tokenizer.all_special_tokens):
        text = text.split(end)[0] if end else text
    text = text.strip()
    return text if len(text) >= max(SHORTEST, len(opening.strip()) + 4) else None


def around_user_turn(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str] | None:
    """What the chat template puts before and after the contents of a first user turn."""
    if not tokenizer.chat_template:
        return None
    text = tokenizer.apply_chat_template([{"role": "user", "content": MARK}], tokenize=False)
    before, found, after = text.partition(MARK)
    return (before, after.strip()) if found else None
