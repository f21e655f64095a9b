"""How does speculative decoding work? A page that teaches it, with a step worked through that some run really made."""

from __future__ import annotations

from typing import Any

from specdemo.decoding.steps import Step
from specdemo.race import Lane
from specdemo.ui import glass
from specdemo.ui.parts import Part
from specdemo.ui.runs import Run, Runs

PROMPT_SHOWN = 80


def how() -> Part:
    """The page, closed."""
    return Part("how", events=("work",), elem_id="sd-how", elem_classes=["sd-part"])


def work(runs: Runs, visitor: str, asked: Any) -> dict[str, Any]:
    """The step to work through: of the run that the page shows, else of a recorded one; {} where no run drafted."""
    number = asked.get("run")
    last = runs.find(visitor, number) if isinstance(number, int) else None
    for run in filter(None, (last, *runs.recorded)):
        if run.record.known.remote:  # a server tells too little of a step
            continue
        step = telling(run)
        if step is not None:
            return _worked(run, step, "recorded" if run in runs.recorded else "last")
    return {}


def telling(run: Run) -> int | None:
    """The number of the step that shows most: some drafts accepted and one refused, else any that drafted."""
    written = run.record.lanes[Lane.SPECULATIVE].written
    drafting = [number for number, wrote in enumerate(written, start=1) if wrote.step.drafted]
    return max(drafting, key=lambda number: _tells(written[number - 1].step), default=None)


def _tells(step: Step) -> tuple[bool, int]:
    refused = step.accepted < step.judged
    return refused and step.accepted > 0, min(step.accepted, 3)


def _worked(run: Run, step: int, source: str) -> dict[str, Any]:
    pair, prompt = run.record.known.pair, " ".join(run.record.prompt.split())
    return {
        "from": source,
        "step": step,
        "target": pair.get("target", "–"),
        "drafter": pair.get("drafter", "–"),
        "prompt": prompt if len(prompt) <= PROMPT_SHOWN else f"{prompt[:PROMPT_SHOWN]}…",
        "view": glass.view(run, Lane.SPECULATIVE, step),
    }
