"""Which chunk of a stream was which engine step, and what did it draft? Told only where the server's counts agree.

A chunk may hold several engine steps, where the server or the network gathered them: nothing is concluded from its
length alone. What cannot be told without a guess is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdemo.remote.counters import Counters
from specdemo.remote.wire import MOST_DRAFTED, Drafting

MOST_WAYS = 1_000_000  # chunks by rounds without a draft that are laid out: a second; beyond, nothing is told


@dataclass(frozen=True, slots=True)
class Round:
    """One engine step: so many tokens drafted, so many of them accepted. (0, 0) drafted nothing."""

    accepted: int = 0
    drafted: int = 0


def told(lengths: Sequence[int], drafting: Drafting) -> list[Round] | None:
    """Each chunk's round by what the server tells of this one request; None where that does not fit the chunks.

    lengths: tokens in each chunk, the first one being the prompt's own.
    """
    accepted, drafted = drafting.per_step_accepted, drafting.per_step_drafted
    if len(drafting.acceptance_histogram) > MOST_DRAFTED + 1:
        return None
    if accepted is None or drafted is None:
        reached = [sum(drafting.acceptance_histogram[i:]) for i in range(1, len(drafting.acceptance_histogram))]
        return _by_totals(
            lengths,
            drafting.num_spec_steps,
            drafting.num_draft_tokens,
            drafting.num_accepted_draft_tokens,
            reached,
        )
    if len(accepted) != len(drafted) or any(a > d for a, d in zip(accepted, drafted, strict=True)):
        return None
    totals = (drafting.num_spec_steps, drafting.num_draft_tokens, drafting.num_accepted_draft_tokens)
    if totals != (len(drafted), sum(drafted), sum(accepted)):
        return None
    return _in_order(lengths, [Round(a, d) for a, d in zip(accepted, drafted, strict=True)])


def counted(lengths: Sequence[int], between: Counters) -> list[Round] | None:
    """Each chunk's round by the server's counters around the request; None where they do not fit the chunks."""
    return _by_totals(lengths, between.drafts, between.drafted, between.accepted, between.accepted_at)


def _in_order(lengths: Sequence[int], rounds: Sequence[Round]) -> list[Round] | None:
    """The rounds laid over the chunks in the one way that fits; None where none fits, or more than one.

    A step that drafted nothing is a chunk of one token without a round, and looks like a round that was refused whole.
    """
    chunks = lengths[1:]
    n, plain = len(chunks), len(chunks) - len(rounds)
    if not lengths or lengths[0] != 1 or plain < 0 or n * plain > MOST_WAYS:
        return None
    # ways[i][p]: how the chunks from i on can be laid out when p of those before drafted nothing; more than 1 says 2
    ways = [[0] * (plain + 2) for _ in range(n + 1)]
    ways[n][plain] = 1

    def may_be(i: int, p: int) -> bool:
        return 0 <= i - p < len(rounds) and _fits(chunks[i], rounds[i - p], last=i == n - 1)

    for i in reversed(range(n)):
        for p in range(min(i, plain) + 1):
            ways[i][p] = min(2, (chunks[i] == 1) * ways[i + 1][p + 1] + may_be(i, p) * ways[i + 1][p])
    if ways[0][0] != 1:
        return None
    found, p = [Round()], 0
    for i in range(n):
        if may_be(i, p) and ways[i + 1][p]:
            found.append(rounds[i - p])
        else:
            found.append(Round())
            p += 1
    return found


def _fits(length: int, one: Round, last: bool) -> bool:
    """Whether a chunk of this length is this round: the accepted tokens and one of the target's own.

    The last one may have been cut, by the budget or by the end of the text.
    """
    return length == one.accepted + 1 or (last and length <= one.accepted)


def _by_totals(
    lengths: Sequence[int], drafts: int, drafted: int, accepted: int, accepted_at: Sequence[int]
) -> list[Round] | None:
    """Where every draft was as long as drafts may be, and either every step drafted or just those of several tokens."""
    longest = len(accepted_at)
    if longest > MOST_DRAFTED or not lengths or lengths[0] != 1 or drafted != drafts * longest:
        return None
    several = sum(length > 1 for length in lengths[1:])
    if drafts not in (len(lengths) - 1, several):
        return None
    everywhere = drafts == len(lengths) - 1
    rounds = [Round()]
    rounds += [Round(n - 1, longest) if everywhere or n > 1 else Round() for n in lengths[1:]]
    beyond = accepted - sum(one.accepted for one in rounds)  # accepted, and cut from the last step
    if beyond > 0 and rounds[-1].drafted:
        rounds[-1] = Round(rounds[-1].accepted + beyond, longest)
    reached = [sum(one.accepted > i for one in rounds) for i in range(longest)]
    fits = sum(one.accepted for one in rounds) == accepted and reached == list(accepted_at)
    return rounds if fits and all(0 <= one.accepted <= longest for one in rounds) else None
