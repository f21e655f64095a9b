"""What did a server's speculation counters count between two scrapes? All its requests together: it may be shared."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from specdemo.remote import wire


class Unreadable(ValueError):
    """A scrape that is no Prometheus text."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Counted since the server started, or between two scrapes. drafts: engine steps that drafted, per request.

    accepted_at: drafted tokens accepted at each position of a draft, as many positions as a draft may have.
    speculates: whether the server has such counters at all. finished: requests that ended, speculating or not.
    engine: whether it counts requests that end, as an engine does; of what a router asks nobody knows what it does.
    """

    speculates: bool
    drafts: int
    drafted: int
    accepted: int
    accepted_at: tuple[int, ...]
    finished: int
    engine: bool = True


def parse(text: str) -> Counters:
    """The counters in a scrape, summed over the server's engines; raises Unreadable."""
    sums = dict.fromkeys((wire.DRAFTS, wire.DRAFT_TOKENS, wire.ACCEPTED, wire.FINISHED), 0)
    positions: dict[int, int] = {}
    seen = set()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                seen.add(sample.name)
                if sample.name in sums:
                    sums[sample.name] += int(sample.value)
                elif sample.name == wire.ACCEPTED_PER_POSITION:
                    position = int(sample.labels["position"])
                    positions[position] = positions.get(position, 0) + int(sample.value)
    except (ValueError, KeyError, IndexError, OverflowError) as error:  # all that its parser raises on other text
        raise Unreadable(str(error)) from None
    if not any(name.startswith(wire.VLLMS) for name in seen):
        raise Unreadable("no counters of vLLM")  # of another engine nobody knows whether it speculates
    if len(positions) > wire.MOST_DRAFTED or sorted(positions) != list(range(len(positions))):
        raise Unreadable("the positions of a draft have gaps, or no end")
    return Counters(
        wire.DRAFTS in seen,
        sums[wire.DRAFTS],
        sums[wire.DRAFT_TOKENS],
        sums[wire.ACCEPTED],
        tuple(positions[i] for i in range(len(positions))),
        sums[wire.FINISHED],
        bool(seen & {wire.FINISHED, wire.DRAFTS}),
    )


def difference(before: Counters, after: Counters) -> Counters | None:
    """What was counted between two scrapes; None where the server was started anew between them."""
    earlier = before.accepted_at or (0,) * len(after.accepted_at)  # labels may appear with the first draft
    if len(earlier) != len(after.accepted_at):
        return None
    between = Counters(
        after.speculates,
        after.drafts - before.drafts,
        after.drafted - before.drafted,
        after.accepted - before.accepted,
        tuple(late - early for early, late in zip(earlier, after.accepted_at, strict=True)),
        after.finished - before.finished,
        after.engine,
    )
    counts = (between.drafts, between.drafted, between.accepted, between.finished, *between.accepted_at)
    return None if min(counts) < 0 else between
