"""How does any transformers causal LM become a Runner? By its own forward over our preallocated cache.

Right for every model whose layers keep plain keys and values; others are refused with a sentence. Sliding windows
keep all keys and let the mask do the window, so that rewinding stays O(1) past it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from specdemo.decoding.kv import KVCache
from specdemo.decoding.runner import Output
from specdemo.models import attention
from specdemo.models.errors import Refusal

PLAIN = "Choose a model that reads from left to right and keeps nothing but keys and values."
# transformers' layers of a cache that can be rewound; a dummy holds nothing: its layer reads an earlier one's keys
KEYS_AND_VALUES = {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer"}
UNBOUNDED = 1 << 20  # max_length of models that state none (alibi)


class RunnerRefused(Refusal):
    """This model cannot be decoded speculatively here; the message says why, naming the model type."""


class _Layer(CacheLayerMixin):
    """One layer of a KVCache, as transformers' attention modules want to see it."""

    is_croppable = True
    is_sliding = False  # all keys are kept: masks are made over the whole length

    def __init__(self, kv: KVCache, index: int) -> None:
        super().__init__()
        self.kv, self.index, self.is_initialized = kv, index, True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the KVCache reserves at the first write."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        return self.kv.write(self.index, key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.kv.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.kv.length

    def get_max_length(self) -> int:
        return -1  # unlimited as far as masks are concerned; the KVCache itself guards its capacity


class GeneralRunner:
    """Any transformers causal LM over one sequence (see decoding/runner.py). vocab_size cuts the logits' width.

    notice: why the general forward is used, where a faster one was tried; "" otherwise.
    Outputs are inference tensors: do not write into them outside `torch.inference_mode`.
    """

    shapes: tuple[int, ...] = ()

    def __init__(self, model: PreTrainedModel, vocab_size: int | None = None, notice: str = "") -> None:
        self.model = model.eval()
        self.config = model.config.get_text_config(decoder=True)
        refuse_unfit(type(model), model.config)
        self.vocab_size = vocab_size or self.config.vocab_size
        self.max_length = getattr(self.config, "max_position_embeddings", None) or UNBOUNDED
        self.device = model.get_input_embeddings().weight.device
        self.notice = notice
        self.kv = KVCache(self.config.num_hidden_layers)
        self._cache = Cache(layers=[_Layer(self.kv, i) for i in range(self.config.num_hidden_layers)])
        self._blocks = decoder_layers(model, self.config)
        self._grouped = attention.fits(model, self.config)
        self._takes_positions = "position_ids" in inspect.signature(model.forward).parameters

    @property
    def length(self) -> int:
        """Tokens held now."""
        return self.kv.length

    def twin(self) -> GeneralRunner:
        """Another one over the same model, with a cache of its own."""
        return GeneralRunner(self.model, self.vocab_size, self.notice)

    def begin(self, capacity: int, keep: int = 0) -> None:
        """Empty the cache, but for the first `keep` tokens, and make room for `capacity` in all."""
        self.kv.begin(capacity, keep)

    def held(self, ids: Tensor) -> int:
        """How many of the first of ids [n] are the first that the cache holds."""
        return self.kv.held(ids)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.kv.rewind(length)

    @torch.inference_mode()
    def forward(self, ids: Tensor, rows: int, aux_layers: tuple[int, ...] = ()) -> Output:
        """Append ids [n]; logits [rows, vocab_size], hidden [n, len(aux_layers) * width] of the named layers."""
        arguments = {"input_ids": ids[None], "cache": self._cache, "use_cache": True}
        if self._takes_positions:
            arguments["position_ids"] = torch.arange(self.length, self.length + len(ids), device=self.device)[None]
        with (
            attention.attend_by(attention.NAME, self.config) if self._grouped else nullcontext(),
            _Tap([self._blocks[i] for i in aux_layers]) as tap,
        ):
            if rows:
                logits = self.model(**arguments, logits_to_keep=rows).logits[0, :, : self.vocab_size]
            else:
                logits = self._run_headless(arguments)
        self.kv.advance(ids)
        return Output(logits, torch.cat(tap.outputs, dim=-1) if aux_layers else None)

    def _run_headless(self, arguments: dict[str, object]) -> Tensor:
        """The forward without the head over the vocabulary: logits_to_keep=0 would mean all rows."""
        self.model.base_model(**arguments)
        return torch.empty(0, self.vocab_size, dtype=self.model.dtype, device=self.device)


class _Tap:
    """Within: what these modules put out [n, width], in their order."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self._modules = modules
        self.outputs: list[Tensor] = [torch.empty(0)] * len(modules)

    def __enter__(self) -> _Tap:
        self._hooks = [m.register_forward_hook(self._keeper(i)) for i, m in enumerate(self._modules)]
        return self

    def __exit__(self, *exc: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _keeper(self, i: int) -> Callable[[nn.Module, object, Tensor | tuple[Tensor, ...]], None]:
        def keep(module: nn.Module, args: object, out: Tensor | tuple[Tensor, ...]) -> None:
            self.outputs[i] = (out[0] if isinstance(out, tuple) else out)[0]

        return keep


def decoder_layers(model: PreTrainedModel, config: PreTrainedConfig) -> nn.ModuleList:
    """The model's decoder layers, first to last."""
    decoder = model.get_decoder()
    for module in decoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == config.num_hidden_layers:
            return module
    raise RunnerRefused(
        f"{config.model_type} models name no list of decoder layers, so they cannot be run here.", PLAIN
    )


def refuse_unfit(model: type[PreTrainedModel], config: PreTrainedConfig) -> None:
    """Raise RunnerRefused where a rewind could not put a model of this class and configuration back as it was."""
    text = config.get_text_config(decoder=True)
    kind = text.model_type
    if config.is_encoder_decoder:
        raise RunnerRefused(
            f"{kind} is an encoder-decoder model; only decoder-only language models can be raced.", PLAIN
        )
    if model._is_stateful:
        raise RunnerRefused(
            f"{kind} models carry a running state that cannot be taken back when a draft is refused, so speculative "
            "decoding would be wrong with them.",
            PLAIN,
        )
    unknown = {type(layer).__name__ for layer in DynamicCache(config=text).layers} - KEYS_AND_VALUES
    if unknown:
        names = ", ".join(sorted(unknown))
        raise RunnerRefused(
            f"{kind} models keep more than keys and values in some layers ({names}), which cannot be taken back when "
            "a draft is refused, so speculative decoding would be wrong with them.",
            PLAIN,
        )
