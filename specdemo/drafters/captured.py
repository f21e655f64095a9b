"""How does a draft cost a device few launches and the host no wait? Its forwards and its draws are replays.

Each drafted token is two replays, one of the forward and one of the draw that follows it; tokens go from one to the
other in the device's memory. A recording for each number of steps would save some launches, and be one for every γ.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specdemo.decoding.capture import Capture, Recordings, Tell, Work, roomy, silent
from specdemo.decoding.captured import CapturedRunner, write_at
from specdemo.decoding.dice import Dice
from specdemo.decoding.drafter import Draft, Draw, Pruned
from specdemo.decoding.forward import attend_merged, attend_rows, mask_of
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.runner import Runner
from specdemo.decoding.sampling import Sampler, exponential_at, key_columns, noise_keys, race_winner
from specdemo.drafters.head import HeadConfig, HeadDrafter, HeadLayer, HeadWeights
from specdemo.drafters.model import ModelDrafter

FED = (2, 1)  # rows of a draft model's forwards: a drafted token, and after full acceptance the last one before it


class CapturedDraws:
    """A lane's draws as replays, recorded when a way of sampling is first met: greedy ones at once.

    vocab_size: the target's. longest: the longest draft. among: the drafter's vocabulary where it is a pruned one.
    """

    def __init__(
        self, capture: Capture, vocab_size: int, longest: int, device: torch.device, among: Pruned | None = None
    ) -> None:
        self._capture, self._longest, self._device = capture, longest, device
        self._vocab_size, self._among = vocab_size, among
        self._logits = torch.zeros(vocab_size if among is None else len(among.ids), device=device)
        self._keys = torch.zeros(2, longest, dtype=torch.int32, device=device)
        self._at = torch.zeros(1, dtype=torch.long, device=device)  # which of the round's tokens is drawn next
        self._tokens = torch.zeros(longest, dtype=torch.long, device=device)
        self._q = torch.empty(0)
        self._way: tuple[SamplingParams, bool] | None = None
        self._stopped = False
        self.prepare(SamplingParams(), shared=True)

    def of(self, draw: Draw, gamma: int) -> Draw:
        """`draw` for a round of up to gamma tokens: replays, if it is a lane's dice and no policy looks at logits."""
        if self._stopped or not isinstance(draw, Dice) or draw.looks or gamma > self._longest:
            return draw
        self.prepare(draw.sampler.params, draw.shared)
        if not draw.greedy_draft:
            (stream, *_), counters = zip(*(draw.noise_of(i) for i in range(gamma)), strict=True)
            keys = noise_keys(draw.sampler.params.seed, stream, counters)
            self._keys[:, :gamma].copy_(key_columns(keys, self._device))
        if draw.sampler.seen is not None:
            self._sampler.seen.copy_(draw.sampler.seen)
        self._at.zero_()
        self.pays, self.goes_on = draw.pays, draw.goes_on
        return self

    def __call__(self, logits: Tensor, drafted: Sequence[Tensor], among: Pruned | None = None) -> tuple[Tensor, Tensor]:
        """The round's next token (see drafter.Draw)."""
        self._logits.copy_(logits)
        self._replay()
        return self._tokens[len(drafted)], self._q[len(drafted)]

    def stop_recording(self) -> None:
        """From now on every lane draws by itself; what is recorded is given back."""
        self._stopped, self._way, self._replay = True, None, None

    @torch.inference_mode()
    def prepare(self, params: SamplingParams, shared: bool) -> None:
        """Record this way of sampling, unless it is the one that is recorded."""
        params = replace(params, seed=0)
        if self._stopped or self._way == (params, shared):
            return
        self._way = None  # recording may fail
        nothing = torch.empty(0, dtype=torch.long, device=self._device)
        self._sampler = Sampler(params, self._vocab_size, self._device, nothing)
        shape = (self._longest,) if shared else (self._longest, self._vocab_size)
        self._q = torch.zeros(shape, device=self._device)
        self._at.zero_()
        self._replay = self._capture(self._work)
        self._way = params, shared

    def _work(self) -> None:
        """Token and q number `at` from the logits; `at` goes on."""
        sampler, among = self._sampler, self._among
        q = sampler.draft(self._logits, (), among).p
        keys = self._keys.index_select(1, self._at)
        at = race_winner(q, exponential_at(keys, sampler.ids_of(among))[0] if sampler.params.drafting else 1)[None]
        token = at if among is None else among.ids.gather(0, at)
        self._tokens.index_copy_(0, self._at, token)
        if self._q.dim() == 1:
            self._q.index_copy_(0, self._at, q.gather(0, at))
        else:
            self._q.index_copy_(0, self._at, (q if among is None else among.spread(q))[None])
        if sampler.seen is not None:
            sampler.seen.index_fill_(0, token, True)
        self._at.add_(1)


class CapturedModel(ModelDrafter):
    """A ModelDrafter whose draws are replays, and its runner's forwards."""

    def __init__(self, runner: CapturedRunner, draws: CapturedDraws) -> None:
        super().__init__(runner)
        self._draws = draws

    def prepare(self, capacity: int, params: SamplingParams, shared: bool) -> None:
        """Record what a run needs: room for so many tokens, and its way of drawing."""
        self.runner.prepare(capacity)
        self._draws.prepare(params, shared)

    def stop_recording(self, why: str) -> None:
        """From now on everything runs as it does without; caches begin anew."""
        self.runner.stop_recording(why)
        self._draws.stop_recording()

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """As without."""
        return super().propose(gamma, self._draws.of(draw, gamma))

    def twin(self) -> ModelDrafter:
        """Another one over the same weights, for another text; it records nothing."""
        return ModelDrafter(self.runner.twin())


class CapturedHead(HeadDrafter):
    """A HeadDrafter whose rows, committed and drafted, and whose draws are replays. longest: the longest draft.

    What the last row gave lies in buffers: its feature and its logits.
    """

    def __init__(
        self,
        config: HeadConfig,
        weights: HeadWeights,
        capture: Capture,
        longest: int,
        tell: Tell = silent,
    ) -> None:
        super().__init__(config, weights)
        self._device = weights.embed.device
        self._draws = CapturedDraws(capture, config.vocab_size, longest, self._device, self.among)
        self._recordings = Recordings(capture, tell)
        rows = longest + 1  # of a commit, at most
        self._rows, self._room = rows, 0
        norm = weights.norm
        self._ids = torch.zeros(rows, dtype=torch.long, device=self._device)
        self._start = torch.zeros(1, dtype=torch.long, device=self._device)  # the first row's place in the cache
        self._hidden = torch.empty(0)  # the target's, of the rows to commit
        self._feature, self._logits = norm.new_zeros(1, config.hidden_size), norm.new_zeros(len(weights.target_ids))

    @classmethod
    def of(cls, head: HeadDrafter, capture: Capture, longest: int, tell: Tell) -> CapturedHead:
        """The same head, recorded, with a cache of its own."""
        return cls(head.config, head._weights, capture, longest, tell)

    def twin(self) -> HeadDrafter:
        """Another one over the same weights, for another text; it records nothing."""
        return HeadDrafter(self.config, self._weights)

    @torch.inference_mode()
    def prepare(self, capacity: int, params: SamplingParams, shared: bool) -> None:
        """Record what a run needs: room for so many tokens, and its way of drawing. What is held stays.

        Before the first text nobody knows yet how wide the target's hidden states are.
        """
        if capacity > self._room and len(self._hidden):
            self._record(roomy(capacity, self.max_length), self._committed, self._hidden)
        self._draws.prepare(params, shared)

    def stop_recording(self, why: str) -> None:
        """From now on everything runs as it does without; the cache, which may be half made, begins anew."""
        self._recordings.clear()
        self._room = sys.maxsize
        self._kv.clear()
        self._committed = 0
        self._draws.stop_recording()

    @torch.inference_mode()
    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        """As without; records where the text needs more room than there is."""
        if capacity > self._room:
            self._record(roomy(capacity, self.max_length), keep, hidden)
        super().begin(prompt_ids, first, hidden, capacity, keep)

    def propose(self, gamma: int, draw: Draw) -> Draft:
        """As without."""
        return super().propose(gamma, self._draws.of(draw, gamma))

    def _commit_rows(self, ids: Tensor, hidden: Tensor) -> None:
        if self._recordings.fitting((len(ids), True), self._kv.length + len(ids)):
            self._hidden[: len(ids)].copy_(hidden)
            self._replay(ids, commits=True)
        else:
            self._keep(*super()._run(ids, self._read(hidden)))
        self._committed = self._kv.length

    def _run(self, ids: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """A drafted row behind the last one, whose feature is in its buffer."""
        if self._recordings.fitting((1, False), self._kv.length + 1):
            self._replay(ids, commits=False)
        else:
            self._keep(*super()._run(ids, feature))
        return self._feature, self._logits

    def _keep(self, feature: Tensor, logits: Tensor) -> None:
        self._feature.copy_(feature)
        self._logits.copy_(logits)

    def _replay(self, ids: Tensor, commits: bool) -> None:
        n, start = len(ids), self._kv.length
        self._ids[:n].copy_(ids)
        self._start.fill_(start)
        self._recordings.fitting((n, commits), start + n)()
        self._kv.advance(ids)

    def _record(self, room: int, keep: int, hidden: Tensor) -> None:
        """Move the cache to where there is so much room, and record every shape over it."""
        self._recordings.clear()
        self._room = 0
        self._kv.begin(room + self._rows, keep)  # recording writes its rows behind all that may be held
        if self._kv.layers[0].keys is None:  # made by the first rows
            super()._run(self._ids[:1], self._feature)
            self._kv.rewind(0)
        capacity = self._kv.capacity
        self._hidden = hidden.new_zeros(self._rows, hidden.shape[1])
        self._start.fill_(capacity - self._rows)
        shapes = [*((n, True) for n in range(self._rows, 0, -1)), (1, False)]
        self._recordings.record(shapes, capacity, lambda shape, span: self._work(*shape, span))
        self._room = capacity - self._rows

    def _work(self, n: int, commits: bool, span: int) -> Work:
        """n rows over the first `span` keys: ids, start and hidden states (or feature) to feature and logits."""
        config, w, layers = self.config, self._weights, self._kv.layers
        merged = w.norm.dtype == torch.float32
        group = config.heads // config.key_heads
        last = len(w.cos) - 1  # recording may stand behind it

        def work() -> None:
            places = self._start + torch.arange(n, device=self._device)
            cos, sin = (table.index_select(0, (places + 1).clamp(max=last)) for table in (w.cos, w.sin))
            mask = mask_of(places, torch.arange(span, device=self._device), None, w.norm)

            def attend(index: int, layer: HeadLayer, x: Tensor) -> Tensor:
                q, k, v = (t.transpose(0, 1) for t in self._heads(layer, x, cos, sin))
                held = [t[:, :span] for t in write_at(layers[index], places, k, v)]
                q, scale = q.unflatten(1, (config.key_heads, group)), config.head_dim**-0.5
                if merged:
                    return attend_merged(q, *held, mask.repeat_interleave(group, dim=0), scale).reshape(n, -1)
                return attend_rows(q, *held, mask, scale).reshape(n, -1)

            features = self._read(self._hidden[:n]) if commits else self._feature
            feature = self._through_layers(self._ids[:n], features, attend)[-1:]
            self._feature.copy_(feature)
            self._logits.copy_(self._head(feature))

        return work


def captured_model(runner: Runner, capture: Capture, longest: int, tell: Tell = silent) -> CapturedModel:
    """A draft model over a lean runner, for drafts of up to `longest` tokens."""
    draws = CapturedDraws(capture, runner.vocab_size, longest, runner.device)
    return CapturedModel(CapturedRunner(runner, capture, FED, tell=tell), draws)
