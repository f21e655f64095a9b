"""What does the page need of everything below it? One record of functions, so that a test can put others in place.

The program's own stand in own_engine.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specdemo.decoding.steps import Parting
from specdemo.models.progress import Progress
from specdemo.race import Request
from specdemo.recording import Known, Settled, Wrote
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
    may take. encode: no ids for a text that has no tokens; thinking on, off or as the template has it. check: the
    request as it will run, or RequestRefused. race: None where it only waits, so that it can be stopped; a Known where
    more is known once it runs; perhaps one Settled at its end. part: find_parting. remote: a lane runs on a server.
    theirs: settings that are then no visitor's. offered: the servers that a visitor may choose among, by setting. at:
    the spec with those chosen. still: raises a RemoteFault where a server is gone, or is not what it was.
    """

    choose: Callable[[Any, str, str, str, str, str], Any]
    load: Callable[[Any, Progress, Any], Any]
    facts: Callable[[Any], list[Fact]]
    known: Callable[[Any], Known]
    context: Callable[[Any], int]
    encode: Callable[[Any, str, Conversation, bool | None], Sequence[int]]
    check: Callable[[Any, Request], Request]
    race: Callable[[Any, Request], Iterator[Wrote | Settled | Known | None]]
    part: Callable[[Any, Request, Sequence[int], Sequence[int]], Parting | None]
    remote: bool = False
    theirs: frozenset[str] = frozenset()
    offered: Callable[[Any], dict[str, tuple[str, ...]]] = lambda spec: {}
    at: Callable[[Any, dict[str, str]], Any] = lambda spec, names: spec
    still: Callable[[Any], None] = lambda pair: None
