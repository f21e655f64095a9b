"""How does the target answer many prompts at once? As rows of one batch, each replaced as soon as it ends.

A row's tokens depend on its own prompt, temperature and noise, not on the rows beside it (up to rounding). Works with
any transformers causal LM that keeps plain keys and values; knows token ids only, no text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from specdemo.decoding.rows_kv import RowsKV
from specdemo.distill.hidden import Listener
from specdemo.models.attention import CUSTOM, attend_by, fits
from specdemo.models.general_runner import refuse_unfit

NAME = "specdemo_rows"


@dataclass(frozen=True, slots=True)
class Job:
    """A prompt to answer. noise: one uniform number in [0, 1) for each token it may get; unused at temperature 0."""

    ids: Sequence[int]
    temperature: float
    noise: Sequence[float]
    tag: object = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job got. ended: its last token is one of the stop ids; otherwise its noise or the columns ran out.

    hidden: the target's states at all tokens but the last, where somebody listens.
    """

    job: Job
    ids: list[int]
    ended: bool
    hidden: Tensor | None = None


class BatchDecoder:
    """`rows` sequences of at most `columns` tokens each, decoded together: add() jobs while free, then step()."""

    def __init__(
        self,
        model: PreTrainedModel,
        rows: int,
        columns: int,
        stop_ids: Collection[int],
        vocab_size: int | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._config = model.config.get_text_config(decoder=True)
        refuse_unfit(type(model), model.config)
        self.rows, self.columns = rows, min(columns, longest_row(self._config))
        self._model, self._stop_ids, self._vocab_size = model.eval(), frozenset(stop_ids), vocab_size
        self._device = model.get_input_embeddings().weight.device
        self._by_rows = fits(model, self._config)
        self._layers = [_Rows(rows, self.columns) for _ in range(self._config.num_hidden_layers)]
        self._cache = Cache(layers=list(self._layers))
        self._jobs: list[Job] = []  # row i of every tensor belongs to job i
        self._answers: list[list[int]] = []
        self._lengths = torch.zeros(rows, dtype=torch.long, device=self._device)  # tokens in the cache
        self._last = torch.zeros(rows, dtype=torch.long, device=self._device)  # sampled, not yet in the cache
        self._finished: list[Answer] = []
        self._listener = listener
        self._states: list[list[Tensor]] = []  # of row i, what was heard at each forward: [tokens, columns]

    @property
    def live(self) -> int:
        """Rows being answered."""
        return len(self._jobs)

    @property
    def free(self) -> int:
        """Jobs that can be added now."""
        return self.rows - self.live

    @torch.inference_mode()
    def add(self, job: Job) -> None:
        """Run a prompt and draw the first token of its answer. ValueError when the prompt leaves no room for one."""
        if not 0 < len(job.ids) < self.columns or not self.free:
            raise ValueError(f"a prompt of {len(job.ids)} tokens does not fit rows of {self.columns}, {self.free} free")
        row, n = self.live, len(job.ids)
        ids = torch.tensor([job.ids], device=self._device)
        mask = torch.full((1, 1, n, n), float("-inf"), dtype=self._model.dtype, device=self._device).triu_(1)
        logits = self._forward(ids, torch.arange(n, device=self._device)[None], mask, _Place(row, row + 1, n))
        self._jobs.append(job)
        self._answers.append([])
        self._states.append([])
        self._lengths[row] = n
        self._listen(row)
        self._take(row, self._draw(logits, [job], [0]))
        self._retire()

    @torch.inference_mode()
    def step(self) -> list[Answer]:
        """One more token for every live row; the answers that are complete since the last call."""
        if self.live:
            live, lengths = self.live, self._lengths[: self.live]
            width = int(lengths.max()) + 1
            seen = torch.arange(width, device=self._device) <= lengths[:, None]
            mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=self._device)
            mask = mask.masked_fill_(~seen, float("-inf"))[:, None, None]  # [live, 1, 1, width]
            place = _Place(0, live, width, lengths)
            logits = self._forward(self._last[:live, None], lengths[:, None], mask, place)
            lengths += 1
            self._listen(0)
            self._take(0, self._draw(logits, self._jobs, [len(a) for a in self._answers]))
            self._retire()
        finished, self._finished = self._finished, []
        return finished

    def _forward(self, ids: Tensor, positions: Tensor, mask: Tensor, place: _Place) -> Tensor:
        """Logits [rows of place, vocab] of the last column of ids, which are written where place says."""
        for layer in self._layers:
            layer.place = place
        with attend_by(NAME, self._config) if self._by_rows else nullcontext():
            out = self._model(
                input_ids=ids, position_ids=positions, attention_mask=mask, cache=self._cache, logits_to_keep=1
            )
        return out.logits[:, -1, : self._vocab_size].float()

    def _draw(self, logits: Tensor, jobs: Sequence[Job], drawn: Sequence[int]) -> Tensor:
        """The next token [n] of each row: the likeliest at temperature 0, else by inverting the distribution's sum."""
        chosen = logits.argmax(dim=-1)
        warm = [i for i, job in enumerate(jobs) if job.temperature > 0]
        if not warm:
            return chosen
        heat = torch.tensor([jobs[i].temperature for i in warm], device=logits.device)
        noise = torch.tensor([jobs[i].noise[drawn[i]] for i in warm], dtype=torch.float32, device=logits.device)
        sums = (logits[warm] / heat[:, None]).softmax(dim=-1).cumsum(dim=-1)
        # right=True: a token of probability zero, whose sum equals the one before it, is never met.
        drawn_ids = torch.searchsorted(sums, (noise * sums[:, -1])[:, None], right=True)[:, 0]
        chosen[warm] = drawn_ids.clamp_(max=logits.shape[-1] - 1)
        return chosen

    def _listen(self, first: int) -> None:
        if self._listener is not None:
            for held, states in zip(self._states[first:], self._listener.states(), strict=True):
                held.append(states)

    def _take(self, first: int, chosen: Tensor) -> None:
        self._last[first : first + len(chosen)] = chosen
        for answer, token in zip(self._answers[first:], chosen.tolist(), strict=True):
            answer.append(token)

    def _retire(self) -> None:
        """Take complete rows out; the last row moves into the gap, so that the live ones stay side by side."""
        lengths = self._lengths[: self.live].tolist()
        for row in reversed(range(self.live)):
            job, answer = self._jobs[row], self._answers[row]
            ended = answer[-1] in self._stop_ids
            if not ended and len(answer) < len(job.noise) and lengths[row] + 1 < self.columns:
                continue
            hidden = torch.cat(self._states[row]) if self._listener else None
            self._finished.append(Answer(job, answer, ended, hidden))
            last = self.live - 1
            if row != last:
                for layer in self._layers:
                    layer.held.move(last, row, lengths[last])
                self._lengths[row], self._last[row] = self._lengths[last].clone(), self._last[last].clone()
                self._jobs[row], self._answers[row], lengths[row] = self._jobs[last], self._answers[last], lengths[last]
                self._states[row] = self._states[last]
            self._jobs.pop()
            self._answers.pop()
            self._states.pop()


@dataclass(frozen=True, slots=True)
class _Place:
    """Rows start to stop of the cache; what they see is the first `width` columns.

    columns: where each row's one new token goes; None for a prompt, which fills columns 0 to width.
    """

    start: int
    stop: int
    width: int
    columns: Tensor | None = None


class _Rows(CacheLayerMixin):
    """One layer's keys and values [rows, kv_heads, columns, dim], as transformers' attention modules want to see it."""

    is_sliding = False

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.held, self.is_initialized = RowsKV(rows, columns), True
        self.place: _Place | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: what holds the rows learns a layer's shape from the first ones."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        place = self.place
        new = place.columns
        columns = torch.arange(place.width, device=key_states.device)[None] if new is None else new[:, None]
        self.held.write(place.start, columns, key_states.transpose(1, 2), value_states.transpose(1, 2))
        keys, values = (t[place.start : place.stop, :, : place.width] for t in (self.held.keys, self.held.values))
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.place.width, 0

    def get_seq_length(self) -> int:
        return self.place.width - 1

    def get_max_length(self) -> int:
        return self.held.columns


def rows_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Attention of query [rows, heads, n, dim] over key, value [rows, kv_heads, width, dim]; [rows, n, heads, dim].

    For one new token a row, the heads of a group become queries that see the same keys: nothing is repeated.
    """
    rows, heads, n, dim = query.shape
    if n > 1 or any(kwargs.get(name) is not None for name in CUSTOM):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal=is_causal, **kwargs
        )
    grouped = query.reshape(rows, key.shape[1], heads // key.shape[1], dim)
    if query.device.type == "cpu":  # two plain products, a fifth faster here than sdpa's kernel
        scores = grouped.mul(dim**-0.5 if scaling is None else scaling) @ key.transpose(-1, -2)
        out = scores.add_(attention_mask).softmax(dim=-1) @ value
    else:
        out = F.scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(rows, 1, heads, -1), None


AttentionInterface.register(NAME, rows_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


def longest_row(config: object) -> int:
    """Columns up to which plain causal attention is this model's own: its context, or its sliding window."""
    limits = (getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window"))
    return min((limit for limit in limits if limit), default=1 << 20)
