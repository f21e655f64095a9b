"""A target and a drafter, checked against each other, loaded and ready to race; and how to change the drafter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedTokenizerBase

from specdemo.decoding.drafter import Drafter
from specdemo.decoding.promise import Probe, Promise, probe
from specdemo.decoding.runner import Runner
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.errors import PairRefused
from specdemo.models.general_runner import RunnerRefused
from specdemo.models.head_files import HeadSource, find_head, load_head
from specdemo.models.loading import EMBEDDED, LoadedModel, Source, find_model, load_model, resolve_device
from specdemo.models.pairing import shared_vocabulary
from specdemo.models.precision import Precision, parse_precision
from specdemo.models.progress import Progress, silent
from specdemo.models.runners import make_runner

NGRAM = "ngram"


@dataclass(frozen=True, slots=True)
class PairSpec:
    """What is asked for. target, drafter: "embedded", a folder or a hub id; the drafter may also be "ngram".

    A drafter's folder or repository may hold a causal LM or an EAGLE-3 head.
    draft_precision: None takes the target's. device: as torch names it; None takes CUDA when there is one.
    double_quantisation: int4 also quantises its scales.
    """

    target: str = EMBEDDED
    drafter: str = NGRAM
    draft_precision: str | None = None
    target_precision: str = Precision.FP32
    device: str | None = None
    double_quantisation: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runners over the target's weights, one a lane, and the drafter of the speculative lane.

    context: tokens that prompt and output may take together. probe: what may be promised of the two lanes' texts.
    facts: what was really loaded, to print.
    """

    spec: PairSpec
    loaded: LoadedModel
    target: Runner
    target_twin: Runner
    drafter: Drafter
    eos_ids: frozenset[int]
    context: int
    probe: Probe
    facts: dict[str, str]

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The target's, which the draft shares."""
        return self.loaded.source.tokenizer

    @property
    def bits_promised(self) -> bool:
        """Whether both lanes compute the same bits under greedy and shared-noise sampling."""
        return self.probe.promise is Promise.BIT_IDENTICAL

    def switch_drafter(self, drafter: str, draft_precision: str | None = None, progress: Progress = silent) -> Pair:
        """The same target with another drafter; this pair stays as it is. Raises ModelUnavailable, PairRefused."""
        spec = replace(self.spec, drafter=drafter, draft_precision=draft_precision)
        if spec == self.spec:
            return self
        return _with_drafter(spec, self.loaded, _find_draft(spec, self.loaded.source, progress), self, progress)


@dataclass(frozen=True, slots=True)
class _ModelDraft:
    """A causal LM that fits its target. vocabulary: the width the two share."""

    source: Source
    vocabulary: int
    precision: Precision


_Draft = _ModelDraft | HeadSource | None  # None: n-gram lookup


def load_pair(spec: PairSpec, progress: Progress = silent, keep_model: bool = False) -> Pair:
    """Check the pair, then load it. Raises ModelUnavailable or PairRefused, each with a sentence for a person.

    keep_model: the transformers model stays able to run by itself, beside the packed weights of the lean forward.
    """
    device = resolve_device(spec.device)
    precision = parse_precision(spec.target_precision)
    target = find_model(spec.target, progress)
    draft = _find_draft(spec, target, progress)  # refused before any weights are read
    loaded = load_model(target, precision, device, progress, spec.double_quantisation)
    return _with_drafter(spec, loaded, draft, None, progress, keep_model)


def _find_draft(spec: PairSpec, target: Source, progress: Progress) -> _Draft:
    """What is to draft, checked against the target as far as its files say before any weights are read."""
    precision = parse_precision(spec.draft_precision or spec.target_precision)
    if spec.drafter == NGRAM:
        return None
    head = find_head(spec.drafter, progress)
    if head is not None:
        if spec.draft_precision not in (None, spec.target_precision):
            raise PairRefused("A head runs in its target's precision: leave the draft's precision as the target's.")
        return head
    source = find_model(spec.drafter, progress)
    return _ModelDraft(source, shared_vocabulary(target, source), precision)


def _with_drafter(
    spec: PairSpec,
    loaded: LoadedModel,
    draft: _Draft,
    before: Pair | None,
    progress: Progress,
    keep_model: bool = True,
) -> Pair:
    """Attach a drafter; the runners of the pair before are kept when they have the same vocabulary."""
    vocabulary = draft.vocabulary if isinstance(draft, _ModelDraft) else _vocabulary(loaded.source)
    try:
        drafter, facts = _make_drafter(spec, loaded, draft, vocabulary, progress)
        if before is not None and before.target.vocab_size == vocabulary:
            target, twin, measured = before.target, before.target_twin, before.probe
        else:
            progress(None, "Comparing the bits of one row and of many")
            target, twin = (make_runner(loaded.model, vocabulary, consume=not keep_model) for _ in range(2))
            measured = probe(target)
    except RunnerRefused as error:
        raise PairRefused(str(error)) from error
    context = min(target.max_length, drafter.max_length)
    facts = _facts(loaded, target) | facts | {"promise": str(measured), "context": f"{context:,}"}
    return Pair(spec, loaded, target, twin, drafter, eos_ids(loaded), context, measured, facts)


def _make_drafter(
    spec: PairSpec, loaded: LoadedModel, draft: _Draft, vocabulary: int, progress: Progress
) -> tuple[Drafter, dict[str, str]]:
    """The drafter, loaded, and what to say of it."""
    device = loaded.model.device
    if draft is None:
        return NgramDrafter(device), {"drafter": "n-gram lookup"}
    if isinstance(draft, HeadSource):
        embedding = loaded.model.get_input_embeddings().weight.detach()
        config = loaded.model.config.get_text_config(decoder=True)
        head = load_head(draft, config, embedding, vocabulary, progress)
        return head, {"drafter": f"{draft.title} (EAGLE-3 head)", "draft precision": loaded.precision}
    model = load_model(draft.source, draft.precision, device, progress, spec.double_quantisation)
    return ModelDrafter(make_runner(model.model, vocabulary, consume=True)), {
        "drafter": draft.source.title,
        "draft weights": draft.source.origin,
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


def _facts(loaded: LoadedModel, target: Runner) -> dict[str, str]:
    full = _vocabulary(loaded.source)
    cut = "" if target.vocab_size == full else f", cut from {full:,} to what the draft shares"
    return {
        "target": loaded.source.title,
        "target weights": loaded.source.origin,
        "target precision": loaded.precision,
        "target parameters": f"{loaded.parameters:,}",
        "forward": target.notice or "lean",
        "vocabulary": f"{target.vocab_size:,}{cut}",
        "device": str(target.device),
        "threads": str(torch.get_num_threads()),
    }
