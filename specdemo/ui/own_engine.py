"""Which functions does the page run when no test puts others in place? Those of this program.

torch and transformers take longer to import than the page takes to stand: they are imported where they are used, first
by the thread that loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from specdemo.decoding.steps import Parting
from specdemo.models.hub_token import HubToken, opened_with
from specdemo.models.pair_options import NGRAM, USUAL_GAMMA, USUAL_TOKENS, PairSpec
from specdemo.models.progress import Progress
from specdemo.race import Request, check, race
from specdemo.recording import Known, Wrote, spelled
from specdemo.ui.conversation import Conversation
from specdemo.ui.engine import AS_TARGET, Engine, Fact
from specdemo.ui.spared import spare_collections
from specdemo.ui.text.below import recognise

if TYPE_CHECKING:
    from specdemo.models.pair import Pair


def real_engine() -> Engine:
    """The engine of this program."""
    return Engine(
        choose=_choose,
        load=_load,
        facts=_facts,
        known=Known.of,
        context=lambda pair: pair.context,
        encode=_encode,
        check=_check,
        race=_race,
        part=_part,
    )


def _choose(spec: PairSpec, drafter: str, precision: str, target_precision: str, target: str, token: str) -> PairSpec:
    draft_precision = None if precision == AS_TARGET else precision
    chosen = {"drafter": drafter, "draft_precision": draft_precision, "target_precision": target_precision}
    hub_token = HubToken(token) if token else None
    return replace(spec, target=target or spec.target, hub_token=hub_token, **chosen)


def _load(spec: PairSpec, progress: Progress, before: Pair | None) -> Pair:
    with opened_with(spec.hub_token):
        return _load_opened(spec, progress, before)


def _load_opened(spec: PairSpec, progress: Progress, before: Pair | None) -> Pair:
    load_pair = _loader()
    if before is not None and replace(spec, drafter=NGRAM, draft_precision=None) == replace(
        before.spec, drafter=NGRAM, draft_precision=None
    ):
        return before.switch_drafter(spec.drafter, spec.draft_precision, progress)
    return load_pair(spec, progress)


@cache
def _loader() -> Callable[[PairSpec, Progress], Pair]:
    """What loads, with what it imports, which stays for good."""
    from specdemo.models.pair import load_pair

    spare_collections()
    return load_pair


def _facts(pair: Pair) -> list[Fact]:
    facts = pair.facts
    drafter = " ".join(filter(None, (facts["drafter"], facts.get("draft precision"))))
    if pair.spec.drafter == NGRAM:
        drafter = ("drafter.ngram", {})
    device = ("device.cpu", {"threads": facts["threads"]}) if facts["device"] == "cpu" else facts["device"]
    precision = facts["target precision"]
    if pair.choice.measured:
        precision = f"{precision} ({1000 * pair.choice.measured[pair.target_precision]:.0f} ms)"
    promise = ("promise.bits" if pair.bits_promised else "promise.rounding", {})
    # a cost that one decimal does not show is left out
    shapes = [("shapes", {"padding": f"{pair.padding:.1f}"})] if pair.padding >= 1.05 else []
    cost = [] if pair.draft_cost is None else [("draft.cost", {"c": f"{pair.draft_cost:.2f}"})]
    graphs = [recognise(f"CUDA graphs are {facts['graphs']}.")] if "graphs" in facts else []
    memory = [*_narrow(facts), *_caches(facts)]
    return [facts["target"], drafter, *cost, precision, device, promise, *shapes, *graphs, *memory]


def _narrow(facts: dict[str, str]) -> list[Fact]:
    if "narrow" not in facts:
        return []
    taken, free = facts["narrow"].split(" of ")
    return [("narrow", {"taken": taken, "free": free})]


def _caches(facts: dict[str, str]) -> list[Fact]:
    if "caches" not in facts:  # where a configuration's own could not be foreseen
        return []
    each = facts["caches, each token"]
    return [("caches", {"n": facts["caches"], "tokens": f"{USUAL_TOKENS:,}", "gamma": str(USUAL_GAMMA), "each": each})]


def _encode(pair: Pair, prompt: str, before: Conversation, thinking: bool | None) -> Sequence[int]:
    from specdemo.models.text import encode_chat

    if not pair.tokenizer.encode(prompt, add_special_tokens=False, split_special_tokens=True):
        return ()  # the chat template alone would make tokens of nothing
    return encode_chat(pair.tokenizer, before.then(prompt), thinking)


def _part(pair: Pair, request: Request, baseline: Sequence[int], other: Sequence[int]) -> Parting | None:
    from specdemo.decoding.parting import find_parting

    return find_parting(pair.target, request.prompt_ids, request.params, baseline, other)


def _check(pair: Pair, request: Request) -> Request:
    check(pair, request)
    return request


def _race(pair: Pair, request: Request) -> Iterator[Wrote]:
    from specdemo.models.text import Detokenizer, spelling

    return spelled(race(pair, request), lambda: Detokenizer(pair.tokenizer), lambda one: spelling(pair.tokenizer, one))
