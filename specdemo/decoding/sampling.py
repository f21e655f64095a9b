"""From logits to the distribution that is really sampled from, and the noise that draws from it.

The draw is an exponential race: x = argmax p(x) / e(x) with e ~ Exp(1), which is argmax(log p + g) with Gumbel g.
The noise is a counter-based function of (seed, stream, counter, token id): the same for one row or many, for a full
or a pruned vocabulary, on any device, with no generator whose state could leak from one run into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from specdemo.decoding.drafter import Pruned
from specdemo.decoding.params import SamplingParams


class Stream(IntEnum):
    """Independent sources of noise; two that must not be correlated never share one."""

    TARGET = 1  # the target's draw at a position; shared noise gives the drafter the same
    DRAFT = 2  # the drafter's draws under rejection and block
    ACCEPT = 3  # the uniform numbers that judge a draft
    RESIDUAL = 4  # the token drawn after a refusal, or the bonus


# --- Noise -----------------------------------------------------------------------------------------------------------

_M64 = (1 << 64) - 1


def _mix(x: int) -> int:
    """The splitmix64 finaliser (Steele, Lea, Flood 2014): a bijection on 64 bits."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _M64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _M64
    return x ^ (x >> 31)


def _signed(x: int) -> int:
    """The low 32 bits as the int32 of the same bits."""
    x &= 0xFFFFFFFF
    return x - (1 << 32) if x >> 31 else x


def noise_keys(seed: int, stream: Stream, counters: Sequence[int]) -> list[tuple[int, int]]:
    """One pair of 32-bit keys a counter: a hash of all three, so that equal keys mean equal (seed, stream, counter)."""
    base = _mix((seed & _M64) ^ _mix(stream * 0x9E3779B97F4A7C15 & _M64))
    mixed = [_mix((base + counter * 0x9E3779B97F4A7C15) & _M64) for counter in counters]
    return [(_signed(x), _signed(x >> 32)) for x in mixed]


def key_columns(keys: list[tuple[int, int]], device: torch.device) -> Tensor:
    """The keys as int32 [2, rows] on the device."""
    return torch.tensor(keys, dtype=torch.int32).to(device, non_blocking=True).T


Ints = TypeVar("Ints", Tensor, np.ndarray)


def _hash(ids: Ints, first: Ints | int, second: Ints | int) -> Ints:
    """31 uniform bits as int32, element by element: a keyed integer hash. torch or numpy, the same bits.

    Multiply-xorshift rounds with Wellons' "lowbias32" constants, the second key between them. int32 products wrap; the
    masks make the arithmetic shifts logical.
    """
    x = ids ^ first
    x ^= (x >> 16) & 0xFFFF
    x *= _signed(0x7FEB352D)
    x ^= (x >> 15) & 0x1FFFF
    x ^= second
    x *= _signed(0x846CA68B)
    x ^= (x >> 16) & 0xFFFF
    x *= _signed(0x9E3779B1)
    x ^= (x >> 15) & 0x1FFFF
    x &= 0x7FFFFFFF
    return x


def _as_uniform(bits: Tensor) -> Tensor:
    return bits.float().add_(0.5).mul_(2.0**-31).clamp_(max=1 - 2.0**-24)


def _as_exponential(bits: Tensor) -> Tensor:
    return _as_uniform(bits).neg_().log1p_().neg_()


def _exponential_on_cpu(bits: np.ndarray) -> np.ndarray:
    """`_as_exponential` to the bit, of a few on a CPU."""
    x = bits.astype(np.float32)
    x += 0.5
    x *= -(2.0**-31)
    np.maximum(x, -(1 - 2.0**-24), out=x)
    torch.from_numpy(x).log1p_()  # numpy's rounds otherwise
    return np.negative(x, out=x)


def uniform_bits(keys: list[tuple[int, int]], ids: Tensor) -> Tensor:
    """31 uniform bits as int32 [rows, n] for each key and each id [n] (int32)."""
    return _bits_at(key_columns(keys, ids.device), ids)


def _bits_at(columns: Tensor, ids: Tensor) -> Tensor:
    first, second = columns[:, :, None]
    return _hash(ids, first, second)


def uniform(keys: list[tuple[int, int]], ids: Tensor) -> Tensor:
    """float32 [rows, n] uniform on (0, 1); fine near 0, where 31 bits keep their relative precision."""
    return _as_uniform(uniform_bits(keys, ids))


def exponential(keys: list[tuple[int, int]], ids: Tensor) -> Tensor:
    """float32 [rows, n] Exp(1) variates, never 0 nor infinite."""
    return _as_exponential(uniform_bits(keys, ids))


def exponential_at(columns: Tensor, ids: Tensor) -> Tensor:
    """`exponential` of keys that are on the device already, as int32 [2, rows]."""
    return _as_exponential(_bits_at(columns, ids))


def race_winner(weights: Tensor, noise: Tensor) -> Tensor:
    """Index [...] drawn from unnormalised weights [..., n] by an exponential race against noise [..., n] (or 1)."""
    return argmax(weights / noise)


def _race_on_cpu(weights: Tensor, keys: list[tuple[int, int]], ids: Tensor, places: np.ndarray | None) -> int:
    """`race_winner` of weights [n] against the noise of one key and these ids [n].

    What weighs nothing never wins, and after top-p a few hundred are left: finding them would wait for a device. In
    numpy, because two dozen operations on so few cost what it costs to begin them.
    """
    left = np.flatnonzero(weights.numpy() != 0) if places is None else places
    noise = _exponential_on_cpu(_hash(ids.numpy()[left], *keys[0]))
    return int(left[(weights.numpy()[left] / noise).argmax()])


def argmax(x: Tensor) -> Tensor:
    """Index [...] of the first of the largest of x [..., n], float32; of the first that is no number, if any is."""
    if x.device.type != "cpu":
        return x.argmax(-1)
    # torch's is not vectorised on a CPU: 360 us for six rows of 49,152, numpy's 30
    return torch.from_numpy(np.asarray(x.numpy().argmax(-1)))


def one_hot(logits: Tensor, ids: Tensor) -> Tensor:
    """The distribution [..., n] that is certain of ids [...]; no numbers where the logits [..., n] there are none."""
    one = logits.gather(-1, ids[..., None]) * 0 + 1
    return torch.zeros_like(logits).scatter_(-1, ids[..., None], one)


# --- Processing ------------------------------------------------------------------------------------------------------


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Repetition penalty (Keskar et al. 2019): logits [rows, vocab] of `seen` [rows, vocab] tokens pushed down."""
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def truncate(p: Tensor, params: SamplingParams) -> Tensor:
    """Top-k, then top-p, then min-p over probabilities [rows, vocab], each renormalised: transformers' order.

    Ties at a threshold are kept, so a row's result never depends on the order of a sort.
    """
    if 0 < params.top_k < p.shape[-1]:
        p = _keep(p, p.topk(params.top_k).values[:, -1:])
    if params.top_p < 1:
        p = _keep(p, _nucleus_threshold(p, params.top_p))
    if params.min_p > 0:
        p = _keep(p, params.min_p * p.amax(-1, keepdim=True))
    return p


def _keep(p: Tensor, threshold: Tensor) -> Tensor:
    kept = p * (p >= threshold)
    # never one row alone: its sum would be split between threads, and have other bits than among many
    rows = kept.expand(2, -1) if len(kept) == 1 else kept
    return kept / rows.sum(-1, keepdim=True)[: len(kept)]


def _nucleus_threshold(p: Tensor, top_p: float) -> Tensor:
    """The probability [rows, 1] of the last token that the smallest set of mass >= top_p takes in."""
    descending = p.sort(-1, descending=True).values
    before = descending.cumsum(-1) - descending  # mass of the likelier tokens
    last = (before < top_p).sum(-1, keepdim=True) - 1
    return descending.gather(-1, last.clamp(min=0))


class Cut(NamedTuple):
    """What truncation left of a row: outside `places` p is 0 now; None: nothing was cut. mass: what stood in them."""

    places: np.ndarray | None
    mass: float


def truncate_row(p: np.ndarray, params: SamplingParams) -> Cut:
    """`truncate`, in place, of one row p [vocab] on a CPU, where numpy picks a few hundred of 49,152 in microseconds.

    The mass that it returns times the new p is the old one. What is left is a small array from the first cut on, and a
    row's bits cannot depend on the rows beside it.
    """
    ids, left, kept = None, p, 1.0
    if p[0] != p[0]:  # no numbers: softmax spreads one to all, and whoever looks at p finds it
        return Cut(ids, kept)
    for cut in _cuts(params, len(p)):
        some = cut(left)
        ids, left = some if ids is None else ids[some], left[some]
        mass = left.sum()
        left /= mass
        kept *= float(mass)
    if ids is not None:
        p.fill(0)
        p[ids] = left
    return Cut(ids, kept)


LIKELY = 5.0  # the first floor of `_nucleus`, in units of a flat row's 1 / vocab


def _cuts(params: SamplingParams, vocab: int) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """The places that each truncation keeps, as functions of what the one before it left."""
    if 0 < params.top_k < vocab:
        yield lambda p: np.flatnonzero(p >= np.partition(p, -params.top_k)[-params.top_k])
    if params.top_p < 1:
        yield lambda p: _nucleus(p, params.top_p)
    if params.min_p > 0:
        yield lambda p: np.flatnonzero(p >= params.min_p * p.max())


def _nucleus(p: np.ndarray, top_p: float) -> np.ndarray:
    """The places of the smallest set of mass >= top_p, and of what is as likely as its last."""
    # Most rows have it among their few likeliest. Else: all that are under the second floor together weigh less than
    # 1 - top_p, so that it lies within the others.
    for floor in (LIKELY / len(p), (1 - top_p) / len(p)):
        some = np.flatnonzero(p >= floor)
        likely = p[some]  # by places: a third of what it takes by a mask
        descending = np.sort(likely)[::-1]
        last = descending.cumsum().searchsorted(p.dtype.type(top_p))
        if last < len(some):
            break
    return some[likely >= descending[min(last, len(some) - 1)]]


# --- The lane's sampler ----------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What one position's logits come to. p [vocab]: what is sampled from.

    kept: the mass that the cuts left, so that p * kept is the chance by the logits alone; None where a temperature or a
    penalty stands between the two, or nobody told. places: outside them p is 0; None: perhaps nowhere.
    """

    logits: Tensor
    p: Tensor
    kept: float | None = None
    places: np.ndarray | None = None

    def raw(self, token: Tensor | int) -> Tensor:
        """Chance [] of the token [] by the logits alone: before temperature, penalty and cuts."""
        return self.logits.softmax(-1)[token] if self.kept is None else self.p[token] * self.kept


class Sampler:
    """One lane's processing: turns logits into p (or q) and knows which tokens the penalty has seen.

    Only the repetition penalty has a state, the set of tokens in prompt and output; `commit` extends it.
    """

    def __init__(self, params: SamplingParams, vocab_size: int, device: torch.device, prompt_ids: Tensor):
        self.params = params
        self.ids = torch.arange(vocab_size, dtype=torch.int32, device=device)
        self.seen: Tensor | None = None
        if params.repetition_penalty != 1:
            self.seen = torch.zeros(vocab_size, dtype=torch.bool, device=device)
            self.seen[prompt_ids] = True

    def commit(self, tokens: Sequence[int]) -> None:
        """Emitted tokens: the penalty sees them from now on."""
        if self.seen is not None:
            self.seen[torch.tensor(tokens).to(self.seen.device, non_blocking=True)] = True

    def after(self, logits: Tensor, drafted: Iterable[Tensor]) -> Row:
        """Of the logits [vocab] that stand after what was emitted and these drafted tokens."""
        return self._row(logits, drafted, self.params.temperature)

    def target(self, logits: Tensor, drafted: Tensor) -> Tensor:
        """p [k + 1, vocab] from logits [k + 1, vocab]; row i stands after the drafted tokens [k] before it."""
        return self._distribution(self._penalised(logits, drafted), self.params.temperature)[0]

    def likeliest(self, logits: Tensor, drafted: Tensor) -> Tensor:
        """Ids [k + 1] that `target` is certain of at temperature 0."""
        return argmax(self._penalised(logits, drafted))

    def draft(self, logits: Tensor, drafted: Iterable[Tensor], among: Pruned | None = None) -> Row:
        """Of the drafter's logits [n], all or `among` the vocabulary's, after the drafted tokens; its p is q."""
        return self._row(logits.float(), drafted, self.params.drafting, among)

    def ids_of(self, among: Pruned | None) -> Tensor:
        """The ids, as int32, that noise for all tokens or for those `among` them is a function of."""
        return self.ids if among is None else among.short_ids

    def draw(
        self,
        weights: Tensor,
        stream: Stream,
        counter: int,
        among: Pruned | None = None,
        places: np.ndarray | None = None,
    ) -> Tensor:
        """Index [] drawn from unnormalised weights [n], of all ids or of those `among` them, by their noise.

        places: outside them the weights are 0, where somebody knows.
        """
        keys, ids = noise_keys(self.params.seed, stream, [counter]), self.ids_of(among)
        if weights.device.type == "cpu":
            return torch.tensor(_race_on_cpu(weights, keys, ids, places))
        return race_winner(weights, exponential(keys, ids)[0])

    def draw_on_cpu(self, weights: Tensor, stream: Stream, counter: int, places: np.ndarray | None = None) -> int:
        """`draw` from all ids on a CPU, as a number, of which nobody has to make a tensor."""
        return _race_on_cpu(weights, noise_keys(self.params.seed, stream, [counter]), self.ids, places)

    def scores(self, logits: Tensor, position: int) -> Tensor:
        """What decides the draw at a position before truncation: [1, vocab] logits over temperature plus the noise."""
        if self.seen is not None:
            logits = penalise(logits, self.seen[None], self.params.repetition_penalty)
        if not self.params.temperature:
            return logits
        return logits / self.params.temperature - self.noise(Stream.TARGET, [position]).log()

    def noise(self, stream: Stream, counters: Sequence[int]) -> Tensor:
        """Exp(1) noise [len(counters), vocab]."""
        return exponential(noise_keys(self.params.seed, stream, counters), self.ids)

    def uniforms(self, stream: Stream, counter: int, n: int) -> Tensor:
        """n uniform numbers [n] on (0, 1)."""
        ids = torch.arange(n, dtype=torch.int32, device=self.ids.device)
        return uniform(noise_keys(self.params.seed, stream, [counter]), ids)[0]

    def _row(self, logits: Tensor, drafted: Iterable[Tensor], temperature: float, among: Pruned | None = None) -> Row:
        penalised = logits
        if self.seen is not None:
            seen = self.seen.clone()
            for token in drafted:
                seen[token[None]] = True
            seen = seen if among is None else seen[among.ids]
            penalised = penalise(logits, seen, self.params.repetition_penalty)
        p, cuts = self._distribution(penalised[None], temperature)
        if cuts is None:
            return Row(logits, p[0])
        kept = cuts[0].mass if temperature == 1 and self.seen is None else None
        return Row(logits, p[0], kept, cuts[0].places)

    def _distribution(self, logits: Tensor, temperature: float) -> tuple[Tensor, list[Cut] | None]:
        """p [rows, vocab], and what each row was cut to; None: it was made greedy, or cut on a device."""
        if temperature == 0:
            return one_hot(logits, argmax(logits)), None
        p = (logits if temperature == 1 else logits / temperature).softmax(-1)
        if not self.params.truncates:
            return p, [Cut(None, 1.0)] * len(p)
        if p.device.type != "cpu":
            return truncate(p, self.params), None
        return p, [truncate_row(row, self.params) for row in p.numpy()]

    def _penalised(self, logits: Tensor, drafted: Tensor) -> Tensor:
        if self.seen is None:
            return logits
        return penalise(logits, self._seen_before(drafted), self.params.repetition_penalty)

    def _seen_before(self, drafted: Tensor) -> Tensor:
        """[k + 1, vocab]: row i has also seen drafted[:i]."""
        seen = self.seen.repeat(len(drafted) + 1, 1)
        rows, columns = torch.tril_indices(len(drafted), len(drafted), device=seen.device)
        seen[rows + 1, drafted[columns]] = True
        return seen
