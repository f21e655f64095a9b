"""What may be pasted into a prompt? Passages and code, the target's own earlier ones or made up; made-up records.

Small models are asked about text that people paste; the draft must have seen the target read long contexts and quote.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import deque

from specdemo.distill.patterns import Filler, load_words

FENCE = re.compile(r"```[a-z+]*\n(.{60,1500}?)```", re.DOTALL)
KEPT = 1500  # earlier answers held to paste from
PROSE = range(300, 2000)  # characters of an answer that can stand as a passage
OWN_SHARE = 0.6  # of pasted texts are the target's own, once there are some
TEXT_KINDS = {"chat", "question", "story", "summary", "rewrite", "invented"}


class Sources:
    """The functions behind the slots that no word list fills; remember() gives them the target's own answers."""

    def __init__(self) -> None:
        self._passages: deque[str] = deque(maxlen=KEPT)
        self._code: deque[str] = deque(maxlen=KEPT)
        self.filler = Filler(
            load_words(),
            {
                "passage": self.passage,
                "long_passage": self.long_passage,
                "code": self.code,
                "code_head": self.code_head,
                "broken_code": self.broken_code,
                "csv": lambda rng: as_csv(records(rng)),
                "json_list": lambda rng: json.dumps(records(rng), indent=rng.choice((None, 2)), ensure_ascii=False),
                "json_object": lambda rng: json.dumps(records(rng, 1)[0], indent=rng.choice((None, 2))),
                "markdown_table": lambda rng: as_table(records(rng)),
                "record_lines": lambda rng: as_lines(records(rng, rng.randint(1, 4))),
            },
        )

    def remember(self, kind: str, answer: str) -> None:
        """Keep an answer to paste from, where it is prose or holds code."""
        self._code.extend(FENCE.findall(answer))
        if kind in TEXT_KINDS and len(answer) in PROSE and "```" not in answer:
            self._passages.append(answer.strip())

    def passage(self, rng: random.Random) -> str:
        """Some 300 to 2,000 characters of prose."""
        if self._passages and rng.random() < OWN_SHARE:
            return rng.choice(self._passages)
        return self.filler.fill("<made_passage>", rng)

    def long_passage(self, rng: random.Random) -> str:
        """Two to four passages after one another."""
        return "\n\n".join(self.passage(rng) for _ in range(rng.randint(2, 4)))

    def code(self, rng: random.Random) -> str:
        """A piece of code, of no more than a screen."""
        if self._code and rng.random() < OWN_SHARE:
            return rng.choice(self._code).strip("\n")
        return self.filler.fill("<made_code>", rng).strip("\n")

    def code_head(self, rng: random.Random) -> str:
        """The first lines of a piece of code, for the target to go on with."""
        lines = self.code(rng).split("\n")
        return "\n".join(lines[: rng.randint(1, max(1, len(lines) * 2 // 3))])

    def broken_code(self, rng: random.Random) -> str:
        """A piece of code with one mistake put in."""
        code = self.code(rng)
        spots = [(spot, new) for old, new in MISTAKES for spot in re.finditer(old, code)]
        if not spots:
            return code
        spot, new = rng.choice(spots)
        return code[: spot.start()] + new + code[spot.end() :]


# What a person gets wrong: a pattern and what to put in its place.
MISTAKES = [
    (r":(?=\n)", ""),
    (r"\)(?=\n)", ""),
    (r" \+ ", " - "),
    (r" < ", " <= "),
    (r" == ", " = "),
    (r"range\(", "range(1, "),
    (r"return ", ""),
    (r" and ", " or "),
    (r" 1\b", " 0"),
    (r"\[0\]", "[1]"),
    (r"not ", ""),
    (r"\.append\(", ".add("),
    (r"self\.", ""),
    (r"    (?=\w)", "  "),
    (r"\"(?=\))", ""),
    (r"len\((\w+)\)", "count"),
]

NUMBERS = {"id": (1, 999), "age": (18, 80), "quantity": (1, 50), "score": (0, 100)}
AMOUNTS = {"price": (1, 900), "total": (1, 900), "rating": (1, 5)}
WORDS = ("name", "city", "country", "email", "job", "date", "status", "category", "team", "color")
COLUMNS = (*NUMBERS, *AMOUNTS, *WORDS, "active")


def records(rng: random.Random, count: int | None = None) -> list[dict[str, object]]:
    """Two to eight made-up records of three to six fields."""
    filler = Filler(load_words(), {})
    names = rng.sample(COLUMNS, rng.randint(3, 6))
    return [{name: field(name, rng, filler) for name in names} for _ in range(count or rng.randint(2, 8))]


def field(name: str, rng: random.Random, filler: Filler) -> object:
    """A value for a column."""
    if name in NUMBERS:
        return rng.randint(*NUMBERS[name])
    if name in AMOUNTS:
        return round(rng.uniform(*AMOUNTS[name]), 2)
    if name == "active":
        return rng.random() < 0.5
    return filler.fill(f"<column_{name}>", rng)


def as_csv(rows: list[dict[str, object]]) -> str:
    """Comma-separated, with a header."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().strip()


def as_table(rows: list[dict[str, object]]) -> str:
    """A Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def as_lines(rows: list[dict[str, object]]) -> str:
    """One `key: value` a line, records apart."""
    return "\n\n".join("\n".join(f"{key}: {value}" for key, value in row.items()) for row in rows)
