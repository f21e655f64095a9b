"""What does the page need of everything below it? One record of functions, so that a test can put others in place.

The program's own stand in own_engine.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specdemo.decoding.steps import Parting
from specdemo.models.progress import Progress
from specdemo.race import LaneStep, Request
from specdemo.recording import Known, Speller
from specdemo.ui.conversation import Conversation
from specdemo.ui.text import Sentence

AS_TARGET = "same"  # a draft precision


Fact = str | Sentence


@dataclass(frozen=True, slots=True)
class Engine:
    """load(spec, progress, pair before or None) -> pair; the others take that pair. All of them run in a worker thread.

    choose(spec, drafter, its precision, the target's, another target or "", the visitor's hub token or ""): the spec
    with these. facts: what to print in the header, the target's name first; a pair of key and parameters is a sentence
    of ui.text. known: what a race's record says of the pair and the machine. context: tokens a prompt and its answer
    may take. encode: no ids for a
    text that has no tokens; thinking on, off or as the template has it. part: find_parting. spelling: one token by
    itself.
    """

    choose: Callable[[Any, str, str, str, str, str], Any]
    load: Callable[[Any, Progress, Any], Any]
    facts: Callable[[Any], list[Fact]]
    known: Callable[[Any], Known]
    context: Callable[[Any], int]
    encode: Callable[[Any, str, Conversation, bool | None], Sequence[int]]
    check: Callable[[Any, Request], None]
    race: Callable[[Any, Request], Iterator[LaneStep]]
    part: Callable[[Any, Request, Sequence[int], Sequence[int]], Parting | None]
    speller: Callable[[Any], Speller]
    spelling: Callable[[Any, int], str]
