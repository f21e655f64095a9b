"""Which prompt is row n of a corpus? Kinds take turns by their weights, so that a corpus cut at any time is balanced.

A plan gives row n the same kind, temperature and pattern in every run; what is pasted in from the target's own
answers depends on which there were.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Protocol

from specdemo.distill.patterns import load_kinds, load_words
from specdemo.distill.sources import Sources

# Greedy more than anything: it is what people race first, and where a small model's answers differ most from sampled.
TEMPERATURES = (0.0, 0.0, 0.0, 0.3, 0.7, 0.7, 1.0, 1.0)
INVENTED, TURNS = "invented", "turns"
INVENTED_WEIGHT = 12
SYSTEM_SHARE, LOWER_SHARE, ENDING_SHARE, GREETING_SHARE = 0.06, 0.05, 0.33, 0.12
CONVERSATIONS = 256  # finished ones held, to go on from

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Planned:
    """A row to synthesise. opening: how the target's own user turn begins, where it writes that first."""

    number: int
    kind: str
    temperature: float
    messages: list[Message]
    opening: str | None = None


class Plan(Protocol):
    """Rows by number, and what became of them."""

    def row(self, number: int) -> Planned | None:
        """The row of that number; None behind the last."""

    def learn(self, planned: Planned, answer: str) -> None:
        """Hear the answer of a row that may be pasted from or gone on with."""


class PatternPlan:
    """Prompts from the patterns, conversations gone on with, and openings for the target to finish. Endless."""

    def __init__(self, seed: int) -> None:
        self._seed, self._sources = seed, Sources()
        self._kinds = load_kinds()
        self._conversations: deque[tuple[str, list[Message]]] = deque(maxlen=CONVERSATIONS)
        weights = {name: kind.weight for name, kind in self._kinds.items()} | {INVENTED: INVENTED_WEIGHT}
        self._cycle = [name for name, weight in weights.items() for _ in range(weight)]

    def row(self, number: int) -> Planned:
        """Row `number`: its kind by the cycle, the rest by its own random stream."""
        cycle, place = divmod(number, len(self._cycle))
        order = random.Random(f"{self._seed}/cycle/{cycle}").sample(self._cycle, len(self._cycle))
        kind, rng = order[place], random.Random(f"{self._seed}/row/{number}")
        temperature = rng.choice(TEMPERATURES)
        if kind == INVENTED:
            return Planned(number, kind, temperature, [], self._sources.filler.fill("<opening>", rng))
        if kind == TURNS and self._conversations and rng.random() < 0.8:
            return Planned(number, kind, temperature, self._go_on(rng))
        return Planned(number, kind, temperature, self._from_pattern(kind, rng))

    def learn(self, planned: Planned, answer: str) -> None:
        """Keep the answer to paste from, and the conversation to go on with while it is short."""
        self._sources.remember(planned.kind, answer)
        if planned.messages and len(planned.messages) < 5 and sum(len(m["content"]) for m in planned.messages) < 1500:
            self._conversations.append((planned.kind, [*planned.messages, message("assistant", answer)]))

    def remember(self, kind: str, answer: str) -> None:
        """Keep an answer of an earlier run to paste from."""
        self._sources.remember(kind, answer)

    def _from_pattern(self, kind: str, rng: random.Random) -> list[Message]:
        """A pattern with its slots filled; at times with a greeting, a wish, a system prompt, or typed in haste."""
        pattern = rng.choice(self._kinds[kind].patterns)
        texts, same = [pattern] if isinstance(pattern, str) else pattern, {}
        texts = [self._sources.filler.fill(text, rng, same) for text in texts]
        endings = self._kinds[kind].endings
        if endings and rng.random() < ENDING_SHARE:
            ending = self._sources.filler.fill(rng.choice(endings), rng, same)
            texts[-1] += "\n\n" + ending.strip() if "\n" in texts[-1] else ending
        if len(texts) == 1 and texts[0][:1] in ascii_uppercase and rng.random() < GREETING_SHARE:
            texts[0] = self._sources.filler.fill("<greeting> ", rng) + texts[0]
        if "\n" not in texts[-1] and rng.random() < LOWER_SHARE:
            texts[-1] = texts[-1].lower().rstrip("?.")
        messages = [message(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]
        if rng.random() < SYSTEM_SHARE:
            messages.insert(0, message("system", self._sources.filler.fill("<system_prompt>", rng)))
        return messages

    def _go_on(self, rng: random.Random) -> list[Message]:
        """A finished conversation with another question behind it."""
        kind, messages = rng.choice(self._conversations)
        words = load_words()
        follow = words.get(f"follow_{kind}", []) + words["follow_any"]
        return [*messages, message("user", self._sources.filler.fill(rng.choice(follow), rng))]


class OwnPrompts:
    """A person's own prompts, each at every temperature; ends with the last of them."""

    def __init__(self, path: Path, temperatures: Sequence[float] = tuple(sorted(set(TEMPERATURES)))) -> None:
        lines = enumerate(path.read_text("utf-8").splitlines(), 1)
        self._rows = [own_prompt(line, path, number) for number, line in lines if line.strip()]
        self._temperatures = temperatures

    def row(self, number: int) -> Planned | None:
        """All prompts at the first temperature, then all at the next: a corpus cut short still has every prompt."""
        turn, place = divmod(number, max(len(self._rows), 1))
        if not self._rows or turn >= len(self._temperatures):
            return None
        kind, messages = self._rows[place]
        return Planned(number, kind, self._temperatures[turn], messages)

    def learn(self, planned: Planned, answer: str) -> None:
        """Nothing to learn: the prompts are given."""

    def remember(self, kind: str, answer: str) -> None:
        """Nothing to remember."""


def own_prompt(line: str, path: Path, number: int) -> tuple[str, list[Message]]:
    """A line of JSON: {"prompt": text} or {"messages": [{"role", "content"}]}, and a "kind" if there is one."""
    try:
        data = json.loads(line)
        messages = data["messages"] if "messages" in data else [message("user", data["prompt"])]
        messages = [message(str(m["role"]), str(m["content"])) for m in messages]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'Line {number} of {path.name} is no prompt. A line is {{"prompt": "..."}} or {{"messages": [...]}}.'
        ) from error
    return str(data.get("kind", "own")), messages


def message(role: str, content: str) -> Message:
    """One message of a chat."""
    return {"role": role, "content": content}
