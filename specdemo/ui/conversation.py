"""What has been said in a chat so far? The browser keeps it and sends it along, so it is gone with the page.

What arrives is checked, since anybody can send anything. Where the lanes' texts differ, the chat goes on with the
baseline's answer.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from specdemo.race import Lane
from specdemo.recording import RaceRecord
from specdemo.ui.parts import Part, encode

MOST_TURNS = 64
MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and what was answered."""

    asked: str
    answered: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """on: whether the next prompt is a turn of a chat. read, reused: the last turn's prompt and how much was held."""

    on: bool = False
    turns: tuple[Turn, ...] = ()
    read: int = 0
    reused: int = 0

    def line(self) -> str:
        """As the chat's script reads it."""
        return encode(asdict(self))

    @property
    def messages(self) -> list[dict[str, str]]:
        """All turns, as chat templates want them."""
        roles = (("user", "asked"), ("assistant", "answered"))
        return [{"role": role, "content": getattr(turn, part)} for turn in self.turns for role, part in roles]

    def then(self, prompt: str) -> list[dict[str, str]]:
        """All turns, and what is asked now."""
        return [*self.messages, {"role": "user", "content": prompt}]

    def with_turn(self, record: RaceRecord) -> Conversation:
        """And what this race has added; nothing where no token was written."""
        lane = record.lanes[Lane.BASELINE]
        if not self.on or not lane.written:
            return self
        turn = Turn(record.prompt, "".join(lane.texts))
        return Conversation(True, (*self.turns, turn), len(record.request.prompt_ids), lane.written[0].step.reused)


def chat() -> Part:
    """The turns before this one, empty."""
    return Part("chat", Conversation().line(), elem_classes=["sd-part"])


def read_line(line: Any) -> Conversation:
    """What a browser sent; whatever is not a conversation is an empty one, and its oldest turns go where it is long."""
    try:
        sent = json.loads(line)
        turns = tuple(Turn(_text(one["asked"]), _text(one["answered"])) for one in sent["turns"])
        on = sent["on"] is True
    except (TypeError, ValueError, KeyError, RecursionError):
        return Conversation()
    turns = turns[-MOST_TURNS:]
    while turns and sum(len(turn.asked) + len(turn.answered) for turn in turns) > MOST_CHARACTERS:
        turns = turns[1:]
    return Conversation(on, turns if on else ())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
