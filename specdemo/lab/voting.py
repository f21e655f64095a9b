"""`lab quality --vote`: the blind vote in a terminal, left above right, a letter a vote."""

from __future__ import annotations

from specdemo.lab.ballot import Ballot, Choice, Sheet
from specdemo.terminal import harmless

LETTERS = {"l": Choice.LEFT, "r": Choice.RIGHT, "n": Choice.NEITHER, "s": Choice.SKIP}
END = "q"
ASKED = "l left, r right, n no difference, s skip, q end and reveal: "


def hold(ballot: Ballot, alike: int) -> None:
    """Ask for every pair, then print which was which. alike: pairs whose texts are the same, which are not shown."""
    if alike:
        print(f"{alike} of the pairs have the same text on both sides. A vote means nothing there: they are left out.")
    if not len(ballot):
        print("There is no pair left to vote on.")
        return
    while (sheet := ballot.sheet) is not None:
        print(f"\n— Pair {ballot.at + 1} of {len(ballot)} —\n")
        print(_shown(sheet))
        choice = _answer()
        if choice is None:
            break
        ballot.cast(choice)
    print()
    for one in ballot.reveal():
        right = "drafted" if one.left == "plain" else "plain"
        where = harmless(f"{one.kind}, prompt {one.prompt}, repeat {one.repeat}")
        print(f"{where}: left was {one.left}, right {right}; your vote: {one.choice}.")
    print()


def _shown(sheet: Sheet) -> str:
    return harmless(f"Asked: {sheet.question}\n\n[left]\n{sheet.left}\n\n[right]\n{sheet.right}\n")


def _answer() -> Choice | None:
    """What was typed; None to end the vote, as Ctrl-C and the end of what can be read do."""
    while True:
        try:
            typed = input(ASKED).strip().lower()
        except (EOFError, KeyboardInterrupt):
            print("\nThe vote ends here; the pairs that are left can be voted on by the same command.")
            return None
        if typed == END:
            return None
        if typed in LETTERS:
            return LETTERS[typed]
        print(f"{harmless(typed)[:40]!r} is none of these letters.")
