"""Between text and token ids: a chat to ids once, ids back to text one at a time, and where a stop string ends a lane.

Text a person typed can never become a control token, and text once given is never taken back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")  # how SentencePiece vocabularies spell a single byte
INCOMPLETE = "\ufffd"  # what decoding puts where the bytes are no whole character, or not yet


def encode_chat(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], thinking: bool | None = None
) -> list[int]:
    """The ids of a chat ({"role", "content"} each) and of the opening of the answer, by the model's own template.

    Control tokens come from the template alone: where the contents spell one, it stays ordinary text. A base model,
    which has no template, is given the plain contents. thinking: whether the model is to think before it answers; None
    leaves that to the template. ValueError when the template refuses the messages, or knows of no thinking.
    """
    if thinking is not None and not knows_thinking(tokenizer):
        raise ValueError("This model's chat template knows no thinking that could be turned on or off.")
    if not tokenizer.chat_template:
        text = "\n\n".join(message["content"] for message in messages)
        return tokenizer.encode(text, split_special_tokens=True)
    asked = {} if thinking is None else {"enable_thinking": thinking}
    try:
        return tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, sanitize_control_tokens=True, return_dict=False, **asked
        )
    except TemplateError as error:
        raise ValueError(f"The model's chat template refuses these messages: {error}") from error


def knows_thinking(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the chat template can be asked to think or not to, as Qwen3's can."""
    return "enable_thinking" in str(tokenizer.chat_template or "")


class Detokenizer:
    """Turns ids into text one by one; what it gave, joined, is what decoding all ids at once gives."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(i for i, token in tokenizer.added_tokens_decoder.items() if token.special)
        self._ids: list[int] = []
        # Only a window is decoded at each step. It opens with the last ids that gave text: decoders that treat the
        # start of a text differently (SentencePiece drops a space there) then never see what follows as a start.
        self._window = 0
        self._given = 0  # ids whose text was given
        self._given_text = ""  # the text of the window's given ids
        self._text = ""  # the text of the whole window

    def add(self, token_id: int) -> str:
        """What this token adds to the text; "" while a character is incomplete."""
        self._ids.append(token_id)
        self._text = self._decode(self._window)
        return self._give() if self._is_settled() else ""

    def flush(self) -> str:
        """What was held back, at the end of a text: an incomplete character decodes to a replacement character."""
        return self._give()

    @property
    def held(self) -> str:
        """The whole characters among what is held back. They may still change."""
        return self._text[len(self._given_text) :].rstrip(INCOMPLETE)

    def _give(self) -> str:
        new = self._text[len(self._given_text) :]
        if new:
            self._window = self._given
            self._text = self._given_text = self._decode(self._window)
        self._given = len(self._ids)
        return new

    def _is_settled(self) -> bool:
        """Whether no later token can change the text so far.

        An incomplete character may be completed. A run of byte tokens is decoded as one: a later byte that makes it
        invalid turns all of the run into replacement characters.
        """
        if self._text.endswith(INCOMPLETE):
            return False
        for token_id in reversed(self._ids[self._given :]):
            spelling = self._tokenizer.convert_ids_to_tokens(token_id)
            if token_id not in self._special and spelling is not None:  # decoding leaves out both
                return not BYTE_TOKEN.fullmatch(spelling)
        return True

    def _decode(self, start: int) -> str:
        return self._tokenizer.decode(self._ids[start:], skip_special_tokens=True, clean_up_tokenization_spaces=False)


def spelling(tokenizer: PreTrainedTokenizerBase, token_id: int) -> str:
    """One token by itself, control tokens by their names."""
    return tokenizer.decode([token_id], skip_special_tokens=False, clean_up_tokenization_spaces=False)


class StopStrings:
    """Watches one lane for the first of some strings, across the borders of tokens and rounds."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, strings: Sequence[str]) -> None:
        self._strings = tuple(string for string in strings if string)
        self._longest = max(map(len, self._strings), default=0)
        self._detokenizer = Detokenizer(tokenizer)
        self._tail = ""

    def __call__(self, new_ids: Sequence[int]) -> int | None:
        """Take a round's tokens; how many of them to keep, the one that completes a stop string included, or None."""
        for kept, token_id in enumerate(new_ids, start=1):
            self._tail += self._detokenizer.add(token_id)
            text = self._tail + self._detokenizer.held
            if any(string in text for string in self._strings):
                return kept
            self._tail = self._tail[max(0, len(self._tail) - self._longest) :]
        return None
