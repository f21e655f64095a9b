"""A race in a terminal: both lanes side by side while they run, and in full, with a summary, when they are done.

Every mark has an underline or weight beside its colour. Nothing the model writes reaches the terminal as a control
sequence. Without a terminal, plain text is printed once, at the end.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from specdemo.decoding.steps import Origin
from specdemo.metrics import Comparison, Sameness, Speed
from specdemo.models.stop_cut import cut_at_stop
from specdemo.race import Lane
from specdemo.recording import Recording

# The terminal's own colours, so that they suit its theme; the second mark is what is left without colour.
STYLES = {
    Origin.TARGET: "",
    Origin.ACCEPTED: "underline cyan",
    Origin.CORRECTED: "bold underline2 yellow",
    Origin.BONUS: "italic underline green",
    Origin.UNKNOWN: "",
}
MEANINGS = {
    Origin.TARGET: "the model alone",
    Origin.ACCEPTED: "drafted, and the model agreed",
    Origin.CORRECTED: "drafted wrong, so the model wrote it",
    Origin.BONUS: "extra, after a full draft",
}
REDRAWS_A_SECOND = 8
NARROWEST_PAIR = 72  # columns below which two panes stand one above the other
DIRECTIONAL = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200e", "\u200f", "\u061c"}


def harmless(text: str) -> str:
    """Text whose control characters are shown, not obeyed: none can move the cursor, ring, or turn the line around."""
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if code < 0x20:
        return chr(0x2400 + code)  # the pictures of control characters
    if code == 0x7F:
        return "␡"
    kind = unicodedata.category(character)
    return f"\\x{code:02x}" if kind in ("Cc", "Cs", "Zl", "Zp") or character in DIRECTIONAL else character


def coloured(recording: Recording, stop_strings: Sequence[str] = ()) -> Text:
    """A lane's text, each token in the mark of whoever is responsible for it; leading white space has none."""
    text = Text()
    for token, piece in zip((t for step in recording.steps for t in step.tokens), recording.texts, strict=True):
        shown = harmless(piece)
        body = shown.lstrip()
        text.append(shown[: len(shown) - len(body)])
        text.append(body, STYLES[token.origin])
    return text[: len(cut_at_stop(text.plain, [harmless(string) for string in stop_strings]))]


class RaceView:
    """Draws a running race a few times a second; costs the lanes nothing, since their clocks do not run meanwhile."""

    def __init__(self, console: Console, recordings: dict[Lane, Recording], stop_strings: Sequence[str]) -> None:
        self._console = console
        self._recordings = recordings
        self._stop_strings = stop_strings
        self._next = 0.0
        # Our own loop redraws: a thread of rich's would take time from the model.
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def __enter__(self) -> RaceView:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self) -> None:
        """Redraw if it is time to."""
        if self._live.is_started and time.monotonic() >= self._next:
            lines = max(self._console.height - 4, 3)
            self._live.update(panes(self._console, self._recordings, self._stop_strings, lines), refresh=True)
            self._next = time.monotonic() + 1 / REDRAWS_A_SECOND


def say(console: Console, *parts: object) -> None:
    """Parts below each other. Lines are broken for a screen only: whoever reads a pipe wants them whole."""
    console.print(*parts, sep="\n", soft_wrap=not console.is_terminal)


def panes(
    console: Console, recordings: dict[Lane, Recording], stop_strings: Sequence[str], lines: int | None = None
) -> RenderableType:
    """Both lanes, side by side where there is room; `lines` keeps only the end of each, as much as a screen holds."""
    if not console.is_terminal or console.width < NARROWEST_PAIR:
        lines = lines and max(lines // 2 - 2, 3)
        stack = [_pane(console, one, stop_strings, console.width, lines) for one in recordings.values()]
        return Group(*stack)
    grid = Table.grid(expand=True, padding=(0, 3, 0, 0))
    width = (console.width - 3) // 2 - 1
    for _ in recordings:
        grid.add_column(ratio=1)
    grid.add_row(*(_pane(console, one, stop_strings, width, lines) for one in recordings.values()))
    return grid


def _pane(
    console: Console, recording: Recording, stop_strings: Sequence[str], width: int, lines: int | None
) -> RenderableType:
    metrics = recording.metrics
    heading = Text(recording.lane.value.capitalize(), "bold")
    heading.append(
        f"  {_number(metrics.tokens_per_second)} tok/s · {_count(metrics.told_tokens)} tokens · "
        f"{_seconds(metrics.seconds)}",
        "not bold",
    )
    text = coloured(recording, stop_strings)
    if lines is not None:
        text = Text("\n").join(text.wrap(console, width)[-lines:])
    return Group(heading, text, Text())


def legend(recording: Recording) -> Text:
    """What the marks mean, with how many tokens wear each."""
    text = Text()
    for origin, meaning in MEANINGS.items():
        count = recording.metrics.tokens_by_origin[origin]
        text.append(origin.value, STYLES[origin]).append(f" {meaning}: {count}   ")
    return text


def summary(recordings: dict[Lane, Recording], comparison: Comparison, *, alike: bool = True) -> Table:
    """Both lanes' figures, one a row, and what the speculative lane has over the baseline. alike: like for like."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "baseline", "speculative", "ratio" if alike else "ratio, not like for like"):
        table.add_column(name, justify="left" if not name else "right")
    plain, spec = (recordings[lane].metrics for lane in (Lane.BASELINE, Lane.SPECULATIVE))
    counted = comparison.speed not in (Speed.FAULT, Speed.NO_SPECULATION)
    for name, figure, ratio in (
        ("tokens/s, decoding", lambda lane: _number(lane.tokens_per_second), comparison.speedup),
        (
            "tokens/s, end to end",
            lambda lane: _number(lane.end_to_end_tokens_per_second),
            comparison.end_to_end_speedup,
        ),
        ("time to first token", lambda lane: _seconds(lane.time_to_first_token), None),
        ("own clock", lambda lane: _seconds(lane.seconds), None),
        ("tokens", lambda lane: _count(lane.told_tokens), None),
        ("target passes", lambda lane: f"{'' if lane.drafts_told else '≈ '}{lane.target_passes}", None),
        ("tokens per target pass", lambda lane: _number(lane.tokens_per_target_pass, 2), None),
        ("drafted", lambda lane: str(lane.drafted) if lane.drafts_told else "–", None),
        ("draft acceptance rate", lambda lane: _percent(lane.draft_acceptance_rate), None),
        ("mean acceptance length", lambda lane: _number(lane.mean_acceptance_length, 2), None),
    ):
        table.add_row(name, figure(plain), figure(spec), times(ratio) if ratio and counted else "")
    return table


def sentences(comparison: Comparison) -> list[str]:
    """The verdicts: what the speedup comes to and why, and whether the texts are the same. A fault comes first."""
    both = [verdict(comparison), sameness(comparison)]
    return both[::-1] if comparison.speed is Speed.FAULT else both


def verdict(comparison: Comparison) -> str:
    """What, by how much, and why, in a sentence."""
    pair = comparison
    verification = f"each verification ({_milliseconds(pair.verify_seconds_per_pass)}) produced"
    tokens = _number(pair.tokens_per_target_pass, 2)
    match pair.speed:
        case Speed.FASTER:
            why = f"{verification} {tokens} tokens; drafting took {_percent(pair.draft_share)} of the time"
            return f"{times(pair.speedup)} faster: {why}."
        case Speed.SLOWER:
            needed = _number(pair.break_even_tokens_per_pass, 2)
            return (
                f"Slower, {times(pair.speedup)}: {verification} {tokens} tokens, and {needed} are needed to pay for it."
            )
        case Speed.EQUAL:
            return f"No difference, {times(pair.speedup)}: verification cost what the accepted drafts saved."
        case Speed.NO_SPECULATION:
            return "No speculation: nothing was drafted, so this lane decoded plainly. No speedup is shown."
        case Speed.FAULT:
            return "The speedup does not count."
    return "Too short to compare: the first token belongs to the prompt's own pass."


def sameness(comparison: Comparison) -> str:
    """Whether the two texts are the same, where that is promised, in a sentence."""
    pair, at = comparison, comparison.first_difference
    gap = pair.parting.gap if pair.parting else None
    match pair.sameness:
        case Sameness.IDENTICAL:
            return f"Identical, {pair.compared} of {pair.compared} tokens."
        case Sameness.BIT_IDENTICAL:
            return f"Bit-identical, {pair.compared} of {pair.compared} tokens."
        case Sameness.ROUNDING_TIE:
            return f"First {at} tokens equal, then a rounding tie: the two best logits lie {gap:.2g} apart."
        case Sameness.FAULT if pair.bits_promised and gap is not None:
            return f"Fault: the texts part at token {at + 1}, where the same bits were promised (logit gap {gap:.2g})."
        case Sameness.FAULT if gap is not None:
            return f"Fault: the texts part at token {at + 1} with a logit gap of {gap:.2g}, too wide for rounding."
        case Sameness.FAULT:
            return f"Fault: one lane ends after {at} tokens, and the other goes on."
        case Sameness.UNEXPLAINED:
            return f"First {at} tokens equal, then the texts part; the logit gap there was not measured."
        case Sameness.SAME_DISTRIBUTION:
            return "Same distribution; the words may differ. The tests prove it, one run cannot."
    return "There is nothing to compare yet."


def fallback(recording: Recording) -> list[str]:
    """That the draft-length policy gave drafting up, and where."""
    at = recording.metrics.fell_back_at
    return [] if at is None else [f"Plain decoding from token {at + 1} on: the draft-length policy gave drafting up."]


def promised(facts: dict[str, str]) -> list[str]:
    """What was promised of the texts, measured on what; what precision, draft and equal shapes cost; if graphs run.

    And how close memory is, where it is.
    """
    named = {"promise": "Promised", "precision choice": "Precision", "draft precision": "Draft precision"}
    named |= {"draft cost": "Draft cost", "equal shapes": "Equal shapes", "graphs": "CUDA graphs", "narrow": "Memory"}
    values = facts | {"precision choice": f"{facts.get('target precision')} {facts.get('precision choice')}"}
    values |= {"narrow": f"it fits narrowly, {facts['narrow']} free are taken"} if "narrow" in facts else {}
    return [f"{title}: {values[name]}." for name, title in named.items() if name in facts]


def times(ratio: float) -> str:
    """A speedup: one decimal, two below 1.1."""
    return f"{ratio:.1f}×" if ratio >= 1.1 else f"{ratio:.2f}×"


def _number(value: float | None, decimals: int = 1) -> str:
    return "–" if value is None else f"{value:.{decimals}f}"


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value * 1000:.0f} ms"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
