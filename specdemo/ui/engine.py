"""What does the page need of everything below it? One record of functions, so that a test can put others in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specdemo.decoding.parting import Parting, find_parting
from specdemo.environment import environment
from specdemo.models.pair import NGRAM, Pair, PairSpec, load_pair
from specdemo.models.progress import Progress
from specdemo.models.text import Detokenizer, encode_chat, spelling
from specdemo.race import LaneStep, Request, check, race
from specdemo.recording import Known, Speller

AS_TARGET = "same"  # a draft precision


Fact = str | tuple[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Engine:
    """load(spec, progress, pair before or None) -> pair; the others take that pair. All of them run in a worker thread.

    choose(spec, drafter, its precision, the target's): the spec with these. facts: what to print in the header, the
    target's name first; a pair of key and parameters is a sentence of ui.text. known: what a race's record says of the
    pair and the machine. context: tokens a prompt and its answer may take. encode: no ids for a text that has no
    tokens. part: find_parting. spelling: one token by itself.
    """

    choose: Callable[[Any, str, str, str], Any]
    load: Callable[[Any, Progress, Any], Any]
    facts: Callable[[Any], list[Fact]]
    known: Callable[[Any], Known]
    context: Callable[[Any], int]
    encode: Callable[[Any, str], Sequence[int]]
    check: Callable[[Any, Request], None]
    race: Callable[[Any, Request], Iterator[LaneStep]]
    part: Callable[[Any, Request, Sequence[int], Sequence[int]], Parting | None]
    speller: Callable[[Any], Speller]
    spelling: Callable[[Any, int], str]


def real_engine() -> Engine:
    """The engine of this program."""
    return Engine(
        choose=_choose,
        load=_load,
        facts=_facts,
        known=_known,
        context=lambda pair: pair.context,
        encode=_encode,
        check=check,
        race=race,
        part=lambda pair, request, baseline, other: find_parting(
            pair.target, request.prompt_ids, request.params, baseline, other
        ),
        speller=lambda pair: Detokenizer(pair.tokenizer),
        spelling=lambda pair, token_id: spelling(pair.tokenizer, token_id),
    )


def _choose(spec: PairSpec, drafter: str, precision: str, target_precision: str) -> PairSpec:
    draft_precision = None if precision == AS_TARGET else precision
    return replace(spec, drafter=drafter, draft_precision=draft_precision, target_precision=target_precision)


def _load(spec: PairSpec, progress: Progress, before: Pair | None) -> Pair:
    if before is not None and replace(spec, drafter=NGRAM, draft_precision=None) == replace(
        before.spec, drafter=NGRAM, draft_precision=None
    ):
        return before.switch_drafter(spec.drafter, spec.draft_precision, progress)
    return load_pair(spec, progress)


def _facts(pair: Pair) -> list[Fact]:
    facts = pair.facts
    drafter = " ".join(filter(None, (facts["drafter"], facts.get("draft precision"))))
    device = f"CPU, {facts['threads']} threads" if facts["device"] == "cpu" else facts["device"]
    precision = facts["target precision"]
    if pair.choice.measured:
        precision = f"{precision} ({1000 * pair.choice.measured[pair.target_precision]:.0f} ms)"
    promise = ("promise.bits" if pair.bits_promised else "promise.rounding", {})
    shapes = [("shapes", {"padding": f"{pair.padding:.1f}"})] if pair.spec.equal_shapes else []
    return [facts["target"], drafter, precision, device, promise, *shapes]


def _encode(pair: Pair, prompt: str) -> Sequence[int]:
    if not pair.tokenizer.encode(prompt, add_special_tokens=False, split_special_tokens=True):
        return ()  # the chat template alone would make tokens of nothing
    return encode_chat(pair.tokenizer, [{"role": "user", "content": prompt}])


def _known(pair: Pair) -> Known:
    return Known(pair.bits_promised, pair.padding, pair.facts, environment(str(pair.target.device)))
