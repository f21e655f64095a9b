"""Is quality unchanged? Both lanes' answers beside each other, beside references, and under the target.

Where the same words are promised, words are compared. Where the same distribution is promised, one answer proves
nothing: answers of many prompts and seeds are tested for a difference, and what could have hidden is said.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import exp
from statistics import mean
from typing import TYPE_CHECKING

from specdemo.decoding.params import SamplingParams
from specdemo.decoding.steps import DraftLength, Rule
from specdemo.lab.ballot import tally
from specdemo.lab.chart import Chart, Mark
from specdemo.lab.experiment import Experiment, Row, Told
from specdemo.lab.options import COUNT, GAMMA, MODEL, TEMPERATURE, TOKENS, OneOf, option
from specdemo.lab.pooled import having, prompt_of, shown
from specdemo.lab.prompts import PromptOptions
from specdemo.lab.runs import followed, texts
from specdemo.metrics import LaneMetrics, Sameness, identity_promised
from specdemo.race import Lane, Request, check, lanes

if TYPE_CHECKING:
    from torch import Tensor

    from specdemo.decoding.runner import Runner
    from specdemo.lab.embedding import Embedder
    from specdemo.models.pair import Pair

SIDES = {"plain": Lane.BASELINE, "drafted": Lane.SPECULATIVE}
SURE = 0.001  # p below which two sides are said to differ; of two tests, so one run in 500 says so of equal sides
CHUNK = 128  # rows of logits at a time
ALL = "all"


@dataclass(frozen=True, slots=True)
class QualityOptions(PromptOptions):
    """One setting, on every prompt, with several seeds where the lanes sample."""

    gamma: int = option(5, "draft length", GAMMA)
    temperature: float = option(0.0, "0 is greedy", TEMPERATURE)
    rule: Rule = option(Rule.REJECTION, "how a draft is judged", OneOf(Rule))
    policy: DraftLength = option(DraftLength.FIXED, "how a draft's length is chosen", OneOf(DraftLength))
    max_new_tokens: int = option(128, "tokens that each answer may have", TOKENS)
    repeats: int = option(1, "of every prompt, each with a seed of its own", COUNT)
    embedding: str = option(
        "", "a model of embeddings, its folder or hub id, to compare answers in meaning (none)", MODEL
    )


def cells(options: QualityOptions) -> list[Row]:
    """Every prompt as often as it is repeated."""
    prompts = options.read()
    return [
        {"kind": prompt.kind, "prompt": prompt.name, "repeat": repeat}
        for prompt, repeat in product(prompts, range(1, options.repeats + 1))
    ]


def run(pair: Pair, options: QualityOptions, todo: Sequence[Row]) -> Iterator[Row | None]:
    """Both lanes of every cell."""
    asked = options.asked(pair)
    references = {(prompt.kind, prompt.name): prompt.reference for prompt in options.read()}

    def request(cell: Row) -> Request:
        prompt = asked[prompt_of(cell)]
        seed = prompt.seed + (cell["repeat"] - 1) * len(asked)
        return Request(
            prompt.ids,
            SamplingParams(options.temperature, seed=seed),
            options.rule,
            options.gamma,
            options.max_new_tokens,
            draft_length=options.policy,
        )

    for cell in todo:
        check(pair, request(cell))
    embedder = _embedder(options.embedding)
    for cell in todo:
        yield cell | (yield from _both(pair, request(cell), references[prompt_of(cell)], embedder))


def _embedder(name: str) -> Embedder | None:
    if not name:
        return None
    from specdemo.lab.embedding import Embedder

    return Embedder.load(name)


def _both(pair: Pair, request: Request, reference: str, embedder: Embedder | None) -> Generator[None, None, Row]:
    """What both lanes wrote, and how that compares."""
    from specdemo.lab.likeness import rouge_l

    lane = {}
    for side, which in SIDES.items():
        lane[side] = LaneMetrics.of((yield from followed(lanes(pair, request)[which])))
    plain, drafted = lane.values()
    promised = identity_promised(request.rule, request.params.temperature)
    row: Row = {"promised": promised} | texts(pair, request, plain, drafted)
    row["same"] = plain.ids == drafted.ids
    row["first difference"] = _first_difference(plain.ids, drafted.ids)
    for side, metrics in lane.items():
        row[f"{side} tokens"] = len(metrics.ids)
        row[f"{side} nats"] = surprise(pair.target, request.prompt_ids, metrics.ids)
        row[f"{side} ids"] = " ".join(map(str, metrics.ids))
        row[f"{side} text"] = pair.tokenizer.decode(metrics.ids, skip_special_tokens=True)
        yield
    row["ROUGE-L"] = rouge_l(row["plain text"], row["drafted text"])
    row["similarity"] = embedder.similarity(row["plain text"], row["drafted text"]) if embedder else None
    row["reference"] = reference
    for side in SIDES:
        row[f"{side} ROUGE-L"] = rouge_l(reference, row[f"{side} text"]) if reference else None
    return row


def surprise(runner: Runner, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """-log of the probability, in nats, that the target itself gives an answer, before temperature and truncation.

    Scored anew from the ids, whatever the lanes say of them.
    """
    import torch

    from specdemo.decoding.runner import prefill

    before, ids = (torch.tensor(some, device=runner.device) for some in (prompt, answer))
    with torch.inference_mode():
        runner.begin(len(before) + len(ids))
        total = _nats(prefill(runner, before).logits, ids[:1])
        for start in range(0, len(ids) - 1, CHUNK):
            chunk, following = ids[start:-1][:CHUNK], ids[start + 1 :][:CHUNK]
            total += _nats(runner.forward(chunk, len(chunk)).logits, following)
        runner.rewind(0)
    return total


def _nats(logits: Tensor, ids: Tensor) -> float:
    """Surprise of ids [n] by logits [n, vocab]."""
    return -logits.float().log_softmax(-1).gather(1, ids[:, None]).double().sum().item()


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Number of the first token, from 1, that is not the same in both; None where none is."""
    for i, (mine, its) in enumerate(zip(one, other, strict=False), 1):
        if mine != its:
            return i
    return None if len(one) == len(other) else min(len(one), len(other)) + 1


# --- What the rows say ------------------------------------------------------------------------------------------------


def perplexity(rows: Sequence[Row], side: str) -> float:
    """Of all tokens of a side under the target: e to the mean surprise."""
    return exp(sum(row[f"{side} nats"] for row in rows) / sum(row[f"{side} tokens"] for row in rows))


def table(rows: Sequence[Row]) -> list[Told]:
    """A line for each kind, then all kinds together."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    return [
        {"kind": kind} | _line(rows if kind == ALL else having(rows, kind=kind))
        for kind in [*kinds, *([ALL] if len(kinds) > 1 else [])]
    ]


def _line(rows: Sequence[Row]) -> Told:
    from specdemo.lab.likeness import bleu

    partings = [row["first difference"] for row in rows if row["first difference"] is not None]
    told = {
        "answers": str(len(rows)),
        "the same": f"{sum(row['same'] for row in rows)}",
        "first difference at": shown(mean(partings) if partings else None, decimals=0),
        "ROUGE-L": shown(mean(row["ROUGE-L"] for row in rows)),
        "BLEU": shown(bleu([row["plain text"] for row in rows], [row["drafted text"] for row in rows]), decimals=1),
    }
    if any(row["similarity"] is not None for row in rows):
        told["similarity"] = shown(mean(row["similarity"] for row in rows), decimals=3)
    for side in SIDES:
        told[f"{side} perplexity"] = shown(perplexity(rows, side))
    referred = [row for row in rows if row["reference"]]
    for side in SIDES if referred else ():
        known, written = ([row[name] for row in referred] for name in ("reference", f"{side} text"))
        told[f"{side} ROUGE-L to references"] = shown(mean(row[f"{side} ROUGE-L"] for row in referred))
        told[f"{side} BLEU to references"] = shown(bleu(known, written), decimals=1)
    return told


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Perplexity of both sides under the target, by kind."""
    kinds = tuple(dict.fromkeys(row["kind"] for row in rows))
    marks = tuple(tuple(Mark(perplexity(having(rows, kind=kind), side)) for kind in kinds) for side in SIDES)
    return [Chart("Perplexity under the target", "kind", kinds, tuple(SIDES), marks)] if rows else []


def findings(rows: Sequence[Row]) -> list[str]:
    """The claim with its numbers, and what these numbers cannot say."""
    if not rows:
        return []
    said = _words(rows) if all(row["promised"] for row in rows) else _distributions(rows)
    votes = tally(rows)
    return said if votes is None else [*said, str(votes)]


def _words(rows: Sequence[Row]) -> list[str]:
    """The same words are promised."""
    same, faulty = sum(row["same"] for row in rows), [row for row in rows if row["texts"] == Sameness.FAULT.value]
    said = [
        f"FAULT: {row['kind']}, prompt {row['prompt']}: the answers part at token {row['first difference']}, "
        "where the logits are no near-tie."
        for row in faulty
    ]
    claim = f"{same} of {len(rows)} answers are the same, token by token"
    if same == len(rows):
        return [f"Quality is unchanged, because the words are: {claim}."]
    ties = len(rows) - same - len(faulty)
    if ties:
        claim += f"; {ties} part at a near-tie that rounding decides, where the target itself prefers neither"
    said.append(f"{claim}. Perplexity under the target is {_perplexities(rows)}.")
    return said


def _distributions(rows: Sequence[Row]) -> list[str]:
    """The same distribution is promised: two tests over pairs of answers, and how much they could have missed."""
    from specdemo.lab.likeness import means_differ, words_differ

    nats = [row["plain nats"] / row["plain tokens"] - row["drafted nats"] / row["drafted tokens"] for row in rows]
    ids = [tuple([int(one) for one in row[f"{side} ids"].split()] for side in SIDES) for row in rows]
    likelihood, words = means_differ(nats), words_differ(ids)
    numbers = (
        f"perplexity {_perplexities(rows)}; mean difference of nats a token {likelihood.observed:+.3f}, "
        f"p = {likelihood.p:.3g}; use of tokens, p = {words.p:.3g} ({len(rows)} pairs of answers, labels swapped)"
    )
    if min(likelihood.p, words.p) < SURE:
        return [f"The two lanes differ: {numbers}. Exact sampling promises one distribution: look for a fault."]
    said = [f"No difference is found: {numbers}."]
    if 0.5 ** (len(rows) - 1) > SURE:
        return [*said, f"{len(rows)} pairs can prove nothing: ask for more prompts, or for --repeats."]
    least = likelihood.shows
    said.append(
        f"What this cannot say: a difference below {least:.3f} nats a token (a perplexity {exp(least):.3f} times as "
        "high) could hide among so few answers, and neither test reads what the answers say."
    )
    return [*said, *_spread(rows)]


def _spread(rows: Sequence[Row]) -> list[str]:
    """How much a plain and a drafted sample differ, beside how much two plain ones do, with other seeds."""
    from specdemo.lab.likeness import rouge_l

    own = []
    for key in dict.fromkeys(map(prompt_of, rows)):
        texts_of = [row["plain text"] for row in rows if prompt_of(row) == key]
        own += [rouge_l(one, other) for one, other in pairwise(texts_of)]
    if not own:
        return []
    between = mean(row["ROUGE-L"] for row in rows)
    return [f"ROUGE-L between the lanes is {between:.2f}; between two plain answers with other seeds, {mean(own):.2f}."]


def _perplexities(rows: Sequence[Row]) -> str:
    return " and ".join(f"{perplexity(rows, side):.2f} {side}" for side in SIDES)


QUALITY = Experiment(
    "quality",
    "Is quality unchanged? Both lanes' answers compared, and tested for a difference where they sample.",
    QualityOptions,
    cells,
    run,
    table,
    findings,
    charts=charts,
    pairs=True,
)
