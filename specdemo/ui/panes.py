"""How does a lane's text travel to the browser? As one NDJSON string that only grows: a header, then a line a step.

Gradio sends a string's growth as an append, so a line costs its own length and nothing that was sent is sent again.
"""

from __future__ import annotations

from specdemo.decoding.steps import UNTOLD, Origin, Stop, Token, Verdict, Why
from specdemo.race import Lane
from specdemo.ui.parts import Part, encode
from specdemo.ui.worker import Wrote

MARKS = {Origin.TARGET: "n", Origin.ACCEPTED: "a", Origin.CORRECTED: "c", Origin.BONUS: "b", Origin.UNKNOWN: "u"}
EXPECTED = (Why.PLAIN, Why.POLICY)  # why a step drafted so much; the others are told


def pane(lane: Lane) -> Part:
    """The pane of a lane, empty."""
    classes = ["sd-part", "sd-fast"] if lane is Lane.SPECULATIVE else ["sd-part"]
    return Part("pane", fills={"lane": lane.value}, elem_id=f"sd-{lane.value}", elem_classes=classes)


class PaneStream:
    """The growing value of one pane. run: another id makes the browser clear the pane, as does that it is settled."""

    def __init__(self, lane: Lane, run: int, *, settled: bool = False) -> None:
        self.value = _line({"run": run, "lane": lane} | ({"settled": True} if settled else {}))

    def add(self, wrote: Wrote, seconds: float | None) -> None:
        """Append a step. seconds: the lane's own clock after it."""
        step = wrote.step
        texts = (*wrote.texts[:-1], wrote.end) if wrote.end else wrote.texts
        line: dict[str, object] = {
            "t": _rounded(seconds),
            "k": [_token(token, text) for token, text in zip(step.tokens, texts, strict=True)],
        }
        if step.why not in EXPECTED:
            line["w"] = step.why
        if step.drafted:
            line["n"] = len(step.drafted)
        if step.gamma:
            line["g"] = step.gamma
        refused = [
            [
                drafted.id,
                text,
                "r" if drafted.verdict is Verdict.REFUSED else "n",
                _rounded(drafted.q),
                _rounded(drafted.p),
            ]
            for drafted, text in zip(step.drafted, wrote.drafts, strict=True)
            if drafted.verdict is not Verdict.ACCEPTED and drafted.id != UNTOLD
        ]
        if refused:
            line["d"] = refused
        if step.stop is Stop.EOS:
            line["e"] = 1
        self.value += _line(line)


def _token(token: Token, text: str) -> list[object]:
    """[id, text, mark, p, q, p before temperature], cut behind the last that is known."""
    fields = [token.id, text, MARKS[token.origin], _rounded(token.p), _rounded(token.q), _rounded(token.p_raw)]
    while fields[-1] is None:
        fields.pop()
    return fields


def _rounded(value: float | None) -> float | None:
    """Four decimals; whole numbers without any, which is most of a greedy lane."""
    if value is None:
        return None
    return int(value) if value == int(value) else round(value, 4)


def _line(value: dict[str, object]) -> str:
    return encode(value) + "\n"
