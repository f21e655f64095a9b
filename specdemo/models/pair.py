"""A target and a drafter, checked against each other, loaded and ready to race; and how to change the drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import groupby
from typing import ParamSpec, TypeVar

import torch
from transformers import PreTrainedTokenizerBase

from specdemo.decoding.draft_length import Levels
from specdemo.decoding.drafter import Drafter
from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.promise import Probe, Promise, probe
from specdemo.decoding.round_costs import Calibration
from specdemo.decoding.runner import Runner
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.head import HeadDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.calibration import calibrate
from specdemo.models.choice import Choice, candidates, load_chosen, plain_steps
from specdemo.models.errors import MemoryShort, ModelUnavailable, PairRefused, first_line
from specdemo.models.general_runner import RunnerRefused, refuse_unfit
from specdemo.models.head_files import HeadSource, find_head, load_head, read_config, refuse_unfit_head
from specdemo.models.loading import LoadedModel, Source, find_model, load_model, model_class, resolve_device
from specdemo.models.memory import collect, is_out_of_memory
from specdemo.models.pair_options import (
    AUTO,
    COMBINED,
    EMBEDDED,
    MAX_GAMMA,
    NGRAM,
    SELF,
    SHIPPED_HEAD,
    PairSpec,
    head_is_shipped,
    split_drafter,
)
from specdemo.models.pairing import shared_vocabulary
from specdemo.models.precision import Precision, parse_precision, stored_quantisation
from specdemo.models.progress import Progress, silent
from specdemo.models.replays import replayed
from specdemo.models.room import Drafting, refuse_where_short
from specdemo.models.runners import make_runner
from specdemo.models.warm_up import warm_up

ROWS = MAX_GAMMA + 1  # of a forward under equal shapes: the longest draft and the target's own token
LOOKUP = "n-gram lookup"
Asked, Made = ParamSpec("Asked"), TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runners over the target's weights, one a lane, and the drafter of the speculative lane.

    choice: the target's precision, and how it was chosen. context: tokens that prompt and output may take together.
    probe: what may be promised of the two lanes' texts. padding: a plain step of the lanes over the fastest plain step
    that the target has; more than 1 only where forwards are padded (see EqualShapes). facts: what was loaded, to print.
    draft_cost: of a drafted token, as a share of that fastest step; None for lookup, and where it cannot be measured.
    calibration: what rounds took when the pair was loaded; None where the context is too short to measure in.
    levels: what runs of this pair leave for its next ones, under the policy that asks for it.
    """

    spec: PairSpec
    loaded: LoadedModel
    choice: Choice
    target: Runner
    target_twin: Runner
    drafter: Drafter
    eos_ids: frozenset[int]
    context: int
    probe: Probe
    facts: dict[str, str]
    padding: float = 1.0
    draft_cost: float | None = None
    calibration: Calibration | None = None
    levels: Levels = field(default_factory=Levels)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The target's, which the draft shares."""
        return self.loaded.source.tokenizer

    @property
    def target_precision(self) -> Precision:
        """What the target really runs in."""
        return self.choice.precision

    @property
    def bits_promised(self) -> bool:
        """Whether both lanes compute the same bits under greedy and shared-noise sampling."""
        return self.probe.promise is Promise.BIT_IDENTICAL

    def switch_drafter(self, drafter: str, draft_precision: str | None = None, progress: Progress = silent) -> Pair:
        """The same target with another drafter; this pair stays as it is. Raises ModelUnavailable, PairRefused."""
        spec = replace(self.spec, drafter=drafter, draft_precision=draft_precision)
        if spec == self.spec:
            return self
        draft = _find_draft(spec, self.loaded.source, progress)
        collect()
        memory = _room(spec, self.loaded.source, draft, self.loaded.model.device, self.choice)
        drafting = _load_draft(spec, self.loaded, self.choice, draft, progress)
        weights = PairWeights(spec, self.loaded, self.choice, draft, drafting, memory)
        pair = _with_drafter(weights, self, progress)
        return replace(pair, facts=pair.facts | memory)


@dataclass(frozen=True, slots=True)
class _ModelDraft:
    """A causal LM that fits its target. vocabulary: the width the two share. precision: None is the target's."""

    source: Source
    vocabulary: int
    precision: Precision | None

    @property
    def title(self) -> str:
        return self.source.title


_Draft = _ModelDraft | HeadSource | None  # None: n-gram lookup alone


@dataclass(frozen=True, slots=True)
class PairWeights:
    """A pair whose weights are on their device, and nothing of it has run: `set_up` makes a Pair of it, perhaps in
    another process. drafting: the weights of what drafts; None for lookup. memory: what the pair takes, in words.
    """

    spec: PairSpec
    loaded: LoadedModel
    choice: Choice
    draft: _Draft
    drafting: LoadedModel | HeadDrafter | None
    memory: dict[str, str]

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The target's, which the draft shares."""
        return self.loaded.source.tokenizer

    def with_drafter(self, drafter: str, progress: Progress = silent) -> PairWeights:
        """The same target's weights beside another drafter's. Raises ModelUnavailable, PairRefused."""
        spec = replace(self.spec, drafter=drafter)
        if split_drafter(drafter)[1] == split_drafter(self.spec.drafter)[1]:  # with lookup or without: the same weights
            return replace(self, spec=spec)
        draft = _find_draft(spec, self.loaded.source, progress)
        memory = _room(spec, self.loaded.source, draft, self.loaded.model.device, self.choice)
        drafting = _load_draft(spec, self.loaded, self.choice, draft, progress)
        return replace(self, spec=spec, draft=draft, drafting=drafting, memory=memory)


def load_pair(spec: PairSpec, progress: Progress = silent, keep_model: bool = False) -> Pair:
    """Check the pair, then load it. Raises ModelUnavailable or PairRefused, each with a sentence for a person.

    keep_model: the transformers model stays able to run by itself, beside the packed weights of the lean forward.
    """
    return set_up(load_weights(spec, progress), progress, keep_model)


def _saying_that_memory_is_short(
    make: Callable[Asked, Made],
) -> Callable[Asked, Made]:
    """Packing, probing and measuring take memory, too: where it runs out in them, that is a sentence."""

    @wraps(make)
    def guarded(*args: Asked.args, **named: Asked.kwargs) -> Made:
        try:
            return make(*args, **named)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        collect()  # out here: inside, the error would keep what was made so far
        raise MemoryShort(
            "The memory ran out while the pair was made ready.",
            "Load the models in int8 or int4, take a smaller draft or n-gram lookup, or free some, and try again.",
        )

    return guarded


@_saying_that_memory_is_short
def load_weights(spec: PairSpec, progress: Progress = silent) -> PairWeights:
    """Check the pair, then put its weights on their device: the half of `load_pair` that runs no forward, unless the
    precision is to be measured. Raises ModelUnavailable or PairRefused.
    """
    device = resolve_device(spec.device)
    if spec.target_precision != AUTO:
        parse_precision(spec.target_precision)
    target = find_model(spec.target, progress)  # everything that can be refused is, before any weights are read
    _refuse_unfit(target)
    draft = _find_draft(spec, target, progress)
    collect()
    memory = _room(spec, target, draft, device)
    progress(None, f"The pair takes {memory['memory']}")
    try:
        loaded, choice = load_chosen(target, spec.target_precision, device, progress, spec.double_quantisation)
    except RunnerRefused as error:
        raise PairRefused(str(error)) from error
    drafting = _load_draft(spec, loaded, choice, draft, progress)
    return PairWeights(spec, loaded, choice, draft, drafting, memory)


def set_up(
    weights: PairWeights, progress: Progress = silent, keep_model: bool = False, before: Pair | None = None
) -> Pair:
    """The other half: pack the weights, check and measure what runs over them. Raises PairRefused.

    before: a pair over the same target's weights, whose runners may be kept.
    """
    pair = _with_drafter(weights, before, progress, keep_model)
    return replace(pair, facts=pair.facts | weights.memory)


def _refuse_unfit(source: Source) -> None:
    try:
        refuse_unfit(model_class(source), source.config)
    except RunnerRefused as error:
        raise PairRefused(str(error)) from error


def _room(
    spec: PairSpec, target: Source, draft: _Draft, device: torch.device, loaded: Choice | None = None
) -> dict[str, str]:
    """What the pair will take and how its caches grow, in words. Raises MemoryShort where that is more than there is.

    loaded: the precision of a target that is there already.
    """
    asked = stored_quantisation(target.config) or spec.target_precision
    if loaded is not None:
        precision = loaded.precision
    else:
        precision = candidates(device)[-1] if asked == AUTO else parse_precision(asked)  # of several, the smallest
    drafting: Drafting = None
    own = None
    if isinstance(draft, HeadSource):
        drafting = read_config(draft.folder)
    elif draft is not None:
        own = draft.precision or precision
        shared = _same_weights(draft.source, target) and own is precision  # they are loaded once
        drafting = None if shared else draft.source.config
    title = f"{target.title} in {precision}" + (f" with {draft.title}" if drafting is not None else "")
    rest = own, spec.double_quantisation, loaded is not None
    try:
        return refuse_where_short(title, target.config, drafting, precision, device, *rest)
    except MemoryShort:
        raise
    except Exception as error:  # any value may stand in a stranger's configuration; loading says what is wrong with it
        return {"memory": f"not foreseen ({first_line(error)})"}


def _same_weights(one: Source, other: Source) -> bool:
    """Whether both are of one folder, however it was named: two paths or two ids may lead to one place."""
    return one.folder.resolve() == other.folder.resolve()


def _find_draft(spec: PairSpec, target: Source, progress: Progress) -> _Draft:
    """What is to draft, checked against the target as far as its files say before any weights are read."""
    precision = parse_precision(spec.draft_precision) if spec.draft_precision else None
    lookup, name = split_drafter(spec.drafter)
    if name is None:
        return None
    if lookup and (not name or split_drafter(name)[0]):
        raise PairRefused(f"{COMBINED} goes before the name of a model or of a head, as in {COMBINED}{EMBEDDED}.")
    if name == SELF:
        return _self_draft(spec, target, precision)
    head = _shipped_head() if name == EMBEDDED else find_head(name, progress)
    if head is not None:
        if spec.draft_precision not in (None, spec.target_precision):
            raise PairRefused("A head runs in its target's precision: leave the draft's precision as the target's.")
        refuse_unfit_head(head, target.config.get_text_config(decoder=True))
        return head
    source = find_model(name, progress)
    _refuse_unfit(source)
    return _ModelDraft(source, shared_vocabulary(target, source), precision)


def _self_draft(spec: PairSpec, target: Source, precision: Precision | None) -> _ModelDraft:
    """The target's own weights in fewer bits; in as many they would be as dear as the target."""
    fewer = [p for p in (Precision.INT8, Precision.INT4) if p != spec.target_precision]
    precision = precision or fewer[0]
    if precision not in fewer or spec.target_precision == Precision.INT4:
        raise PairRefused(
            f"The target's own weights in {precision} cost as much as the target: "
            f"draft with them in {' or '.join(fewer)}, for a target in more bits than that."
        )
    return _ModelDraft(target, _vocabulary(target), precision)


def _shipped_head() -> HeadSource:
    if not head_is_shipped():
        raise ModelUnavailable(
            f"This copy holds no head for the embedded target ({SHIPPED_HEAD} has no config.json).",
            f"Take `{NGRAM}`, or make one with `python -m specdemo distill` and name its folder.",
        )
    return HeadSource(EMBEDDED, SHIPPED_HEAD)


@_saying_that_memory_is_short
def _with_drafter(weights: PairWeights, before: Pair | None, progress: Progress, keep_model: bool = True) -> Pair:
    """Attach a drafter; the runners of the pair before are kept when they have the same vocabulary."""
    spec, loaded, choice, draft = weights.spec, weights.loaded, weights.choice, weights.draft
    vocabulary = draft.vocabulary if isinstance(draft, _ModelDraft) else _vocabulary(loaded.source)
    try:
        drafter, facts = _make_drafter(weights, vocabulary)
        kept = before is not None and before.target.vocab_size == vocabulary
        if kept:
            target, twin, measured, padding = before.target, before.target_twin, before.probe, before.padding
        else:
            target, twin = (make_runner(loaded.model, vocabulary, consume=not keep_model) for _ in range(2))
        (target, twin, drafter), graphs = replayed(spec.graphs, (target, twin, drafter), progress)
        if not kept:
            progress(None, "Comparing the bits of one row and of many")
            shapes = (ROWS,) if spec.equal_shapes else target.shapes
            padding = 1.0
            if shapes:
                target, twin, padding = _equal_shapes(target, twin, shapes)
            measured = probe(target)
        if target.device.type == "cuda":
            warm_up(target, twin, drafter)
        progress(None, "Timing rounds of each draft length")
        own = drafter.model if isinstance(drafter, CombinedDrafter) else drafter
        calibration = calibrate(twin, None if draft is None else own)
    except RunnerRefused as error:
        raise PairRefused(str(error)) from error
    context = min(target.max_length, drafter.max_length)
    facts = _facts(loaded, choice, target) | facts | {"promise": str(measured), "context": f"{context:,}"}
    if graphs:
        facts["graphs"] = graphs
    cost = None
    if draft is not None and calibration is not None:
        cost = calibration.drafted_token * padding
        facts["draft cost"] = f"a drafted token costs {cost:.2f} of a plain step (c, measured)"
    if target.shapes:
        dearer = f"a plain step costs {padding:.2f} of the unpadded one, which speedup and v are over"
        facts["equal shapes"] = f"forwards of {_ranges(target.shapes)} rows; {dearer}"
    return Pair(
        spec,
        loaded,
        choice,
        target,
        twin,
        drafter,
        eos_ids(loaded),
        context,
        measured,
        facts,
        padding,
        cost,
        calibration,
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in words: "3 to 6, 8 to 19"."""
    groups = [[n for _, n in group] for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{group[0]} to {group[-1]}" if len(group) > 1 else str(group[0]) for group in groups)


def _equal_shapes(target: Runner, twin: Runner, shapes: Sequence[int]) -> tuple[Runner, Runner, float]:
    """Both runners with equal shapes, and what their plain step costs over the faster one of padded and unpadded."""
    padded, other = (EqualShapes(runner, shapes) for runner in (target, twin))
    seconds, unpadded = plain_steps([padded, twin])  # two runners: each keeps its cache while they take turns
    return padded, other, max(1.0, seconds / unpadded)


def _load_draft(
    spec: PairSpec, loaded: LoadedModel, choice: Choice, draft: _Draft, progress: Progress
) -> LoadedModel | HeadDrafter | None:
    """The weights of what drafts, on the target's device; the target's own where they are the same."""
    if draft is None:
        return None
    if isinstance(draft, HeadSource):
        embedding = loaded.model.get_input_embeddings().weight.detach()
        config = loaded.model.config.get_text_config(decoder=True)
        return load_head(draft, config, embedding, _vocabulary(loaded.source), progress)
    precision = draft.precision or choice.precision
    if _same_weights(draft.source, loaded.source) and precision is choice.precision:
        return loaded
    return load_model(draft.source, precision, loaded.model.device, progress, spec.double_quantisation)


def _make_drafter(weights: PairWeights, vocabulary: int) -> tuple[Drafter, dict[str, str]]:
    """The drafter over its weights, and what to say of it."""
    lookup = NgramDrafter(weights.loaded.model.device)
    if weights.drafting is None:
        return lookup, {"drafter": LOOKUP}
    model, facts = _make_head(weights) if isinstance(weights.draft, HeadSource) else _make_model(weights, vocabulary)
    if not split_drafter(weights.spec.drafter)[0]:
        return model, facts
    return CombinedDrafter(lookup, model), facts | {"drafter": f"{LOOKUP}, else {facts['drafter']}"}


def _make_head(weights: PairWeights) -> tuple[Drafter, dict[str, str]]:
    title = f"{weights.draft.title} (EAGLE-3 head)"
    return weights.drafting, {"drafter": title, "draft precision": weights.loaded.precision}


def _make_model(weights: PairWeights, vocabulary: int) -> tuple[Drafter, dict[str, str]]:
    source, model = weights.draft.source, weights.drafting
    runner = make_runner(model.model, vocabulary, consume=model is not weights.loaded)
    return ModelDrafter(runner), {
        "drafter": source.title,
        "draft weights": source.origin,
        "draft precision": model.precision,
        "draft parameters": f"{model.parameters:,}",
    }


def eos_ids(loaded: LoadedModel) -> frozenset[int]:
    """Every id that ends a text, by generation config, config and tokenizer; each may name one, several or none."""
    model = loaded.model
    named = (
        model.generation_config.eos_token_id if model.generation_config else None,
        model.config.get_text_config(decoder=True).eos_token_id,
        loaded.source.tokenizer.eos_token_id,
    )
    return frozenset(i for ids in named if ids is not None for i in (ids if isinstance(ids, list) else [ids]))


def _vocabulary(source: Source) -> int:
    return source.config.get_text_config(decoder=True).vocab_size


def _facts(loaded: LoadedModel, choice: Choice, target: Runner) -> dict[str, str]:
    full = _vocabulary(loaded.source)
    cut = "" if target.vocab_size == full else f", cut from {full:,} to what the draft shares"
    return {
        "target": loaded.source.title,
        "target weights": loaded.source.origin,
        "target precision": loaded.precision,
        "precision choice": str(choice),
        "target parameters": f"{loaded.parameters:,}",
        "forward": target.notice or "lean",
        "vocabulary": f"{target.vocab_size:,}{cut}",
        "device": str(target.device),
        "threads": str(torch.get_num_threads()),
    }
