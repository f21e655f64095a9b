"""Which of two answers is better, read blind? Pairs placed by chance, votes, and what a sign test makes of them.

Where both texts are equal a vote means nothing, so such pairs are not shown. A vote stands in its pair's row, and with
it in every file of the result; the voter learns which lane wrote which at the reveal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb

from specdemo.lab.experiment import Row

VOTE = "vote"  # the column
FEWEST = 6  # votes that prefer a side: fewer have a p of over 0.05 even where all agree


class Vote(StrEnum):
    """For whose text; a pair that was passed over has none."""

    PLAIN = "plain"
    DRAFTED = "drafted"
    NEITHER = "neither"


class Choice(StrEnum):
    """What a voter says, who sees two sides and knows no lane."""

    LEFT = "left"
    RIGHT = "right"
    NEITHER = "neither"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A pair as the voter sees it. question: what was asked."""

    kind: str
    prompt: str
    repeat: int
    question: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Revealed:
    """A pair that was voted on: whose text stood left, and what the voter said."""

    kind: str
    prompt: str
    repeat: int
    left: str
    choice: str


@dataclass(frozen=True, slots=True)
class Tally:
    """Of all votes. p: how often votes that prefer a side fall as unevenly by chance alone (two-sided, exact)."""

    plain: int
    drafted: int
    neither: int

    @property
    def preferring(self) -> int:
        """Votes that prefer a side."""
        return self.plain + self.drafted

    @property
    def p(self) -> float:
        """Of the sign test; 1 where nobody prefers a side."""
        fewer = min(self.plain, self.drafted)
        as_uneven = sum(comb(self.preferring, n) for n in range(fewer + 1))
        return min(1.0, 2 * as_uneven / 2**self.preferring)

    def __str__(self) -> str:
        said = (
            f"Blind vote: {self.plain} for plain, {self.drafted} for drafted, {self.neither} without a preference; "
            f"exact sign test over the votes that prefer a side ({self.preferring}), p = {self.p:.3g}."
        )
        if self.preferring < FEWEST:
            return f"{said} Fewer than {FEWEST} such votes show no difference, however they fall."
        return said


def differs(row: Row) -> bool:
    """Whether the two texts of a row can be told apart by reading."""
    return row["plain text"].strip() != row["drafted text"].strip()


def is_open(row: Row) -> bool:
    """Whether a vote on this row is still to be had."""
    return differs(row) and VOTE not in row


def tally(rows: Sequence[Row]) -> Tally | None:
    """The votes that rows hold; None where there is none. ValueError for one that nobody can cast."""
    votes = [Vote(row[VOTE]) for row in rows if VOTE in row]
    return Tally(*map(votes.count, Vote)) if votes else None


def toss() -> bool:
    """A fair coin that nobody can foresee."""
    return secrets.randbelow(2) == 1


class Ballot:
    """A vote over the open pairs of rows, one after the other.

    questions: what was asked, by kind and name. coin: whether the plain text stands left, asked once a pair.
    """

    def __init__(
        self, rows: Sequence[Row], questions: Mapping[tuple[str, str], str], coin: Callable[[], bool] = toss
    ) -> None:
        self._pairs = [(row, coin()) for row in rows if is_open(row)]
        self._questions = questions
        self._cast: list[Revealed] = []
        self.at = 0

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def sheet(self) -> Sheet | None:
        """The pair that is voted on next; None after the last."""
        if self.at >= len(self._pairs):
            return None
        row, plain_left = self._pairs[self.at]
        texts = [row["plain text"], row["drafted text"]]
        left, right = texts if plain_left else reversed(texts)
        return Sheet(*_named(row), self._questions.get((row["kind"], row["prompt"]), ""), left, right)

    def cast(self, choice: Choice) -> None:
        """Vote on the pair of the sheet, or pass it over, and go on to the next."""
        row, plain_left = self._pairs[self.at]
        self.at += 1
        if choice is Choice.SKIP:
            return
        sides = (Vote.PLAIN, Vote.DRAFTED) if plain_left else (Vote.DRAFTED, Vote.PLAIN)
        row[VOTE] = {Choice.LEFT: sides[0], Choice.RIGHT: sides[1], Choice.NEITHER: Vote.NEITHER}[choice].value
        self._cast.append(Revealed(*_named(row), sides[0].value, choice.value))

    def reveal(self) -> list[Revealed]:
        """End the vote: which was which of the pairs that have one. The others stay open."""
        self.at = len(self._pairs)
        return self._cast


def _named(row: Row) -> tuple[str, str, int]:
    return row["kind"], row["prompt"], row["repeat"]
