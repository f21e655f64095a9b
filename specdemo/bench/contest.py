"""Who competes: our pairs, transformers' models with the same weights, and the prompts, each loaded when first needed.

Both sides write exactly the same number of tokens: end-of-text ids are switched off everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from transformers import GenerationConfig, PreTrainedModel

from specdemo.bench.first_layers import save_first_layers
from specdemo.bench.measure import Repeat, Watcher, interleave
from specdemo.bench.sides import Prompt, Side
from specdemo.decoding.linear import row_dtype
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import Step
from specdemo.lab.prompt_files import read_prompts
from specdemo.lab.prompts import chosen, prompt_ids
from specdemo.models.loading import Source, find_model, load_model
from specdemo.models.pair import Pair, load_pair
from specdemo.models.pair_options import AUTO, EMBEDDED, PairSpec
from specdemo.race import Lane, Request, lanes

PROMPTS = Path(__file__).resolve().parents[2] / "assets" / "prompts" / "bench.json"
KINDS = ("copying", "other")
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=1.0, top_p=0.95, seed=1)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may set. draft_layers: of the target's own, in the model draft. quick: one prompt of a kind."""

    target: str = EMBEDDED
    precision: str = AUTO
    device: str | None = None
    gamma: int = 5
    new_tokens: int = 48
    repeats: int = 5
    draft_layers: int = 4
    quick: bool = False
    prompts: Path = PROMPTS


@dataclass
class Contest:
    """Everything the rows measure with. scratch: a folder for what is written on the way."""

    settings: Settings
    scratch: Path
    watch: Watcher
    tell: Callable[[str], None] = field(default=lambda line: None)

    # --- Ours

    @cached_property
    def ngram(self) -> Pair:
        """The target with n-gram lookup."""
        s = self.settings
        pair = load_pair(PairSpec(target=s.target, target_precision=s.precision, device=s.device))
        return replace(pair, eos_ids=frozenset())

    @cached_property
    def model(self) -> Pair:
        """The same target with its own first layers as draft."""
        return self.with_drafter(str(self.draft_folder))

    def with_drafter(self, drafter: str) -> Pair:
        """The same target with another drafter."""
        return replace(self.ngram.switch_drafter(drafter), eos_ids=frozenset())

    @cached_property
    def draft_folder(self) -> Path:
        """The target's first layers, saved."""
        folder = self.scratch / f"first-{self.settings.draft_layers}-layers"
        source = self.ngram.loaded.source.folder
        save_first_layers(source, folder, self.settings.draft_layers, self.ngram.loaded.model.dtype)
        return folder

    def request(self, prompt: Prompt, params: SamplingParams = GREEDY) -> Request:
        """What our lanes are asked."""
        s = self.settings
        return Request(prompt_ids=prompt.ids, params=params, gamma=s.gamma, max_new_tokens=s.new_tokens)

    def lane(self, pair: Pair, lane: Lane, prompt: Prompt, params: SamplingParams = GREEDY) -> Iterator[Step]:
        """One lane as the race would run it."""
        return lanes(pair, self.request(prompt, params))[lane]

    # --- Theirs

    @cached_property
    def reference(self) -> PreTrainedModel:
        """The target as transformers loads it, in the same precision; our engine never touches this copy.

        Where our fp16 weights are multiplied in fp32, theirs are the same numbers held as fp32: it has no such product.
        """
        return self._plain(self.ngram.loaded.source, {})

    @cached_property
    def assistant(self) -> PreTrainedModel:
        """The same draft, set so that `generate` drafts exactly γ tokens in every round."""
        options = {
            "num_assistant_tokens": self.settings.gamma,
            "num_assistant_tokens_schedule": "constant",
            "assistant_confidence_threshold": 0.0,
        }
        return self._plain(find_model(str(self.draft_folder)), options)

    def _plain(self, source: Source, options: dict[str, object]) -> PreTrainedModel:
        model = load_model(source, self.ngram.target_precision, self.ngram.target.device).model
        model = model.to(row_dtype(model.get_output_embeddings().weight))
        model.config.eos_token_id = model.config.pad_token_id = None
        # no pad id: the nested generate of an assistant would mask it wherever it occurs in a text, and draft worse
        model.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=None, **options)
        return model

    # --- Prompts

    def prompts(self, kind: str) -> list[Prompt]:
        """The prompts of a kind, one of KINDS, as ids; one of them when quick. Raises LabRefused."""
        found = chosen(read_prompts(self.settings.prompts), (kind,), 1 if self.settings.quick else None)
        return [Prompt(f"{kind} {one.name}", prompt_ids(self.ngram, one.text), one.text) for one in found]

    # --- Measuring

    def measure(self, sides: list[Side], prompts: list[Prompt]) -> list[Repeat]:
        """The repeats, told as they come."""
        return interleave(sides, prompts, self.settings.repeats, self.watch, self.tell)
