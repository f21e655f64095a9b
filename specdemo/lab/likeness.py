"""How alike are two texts, and could two sets of texts be of one source? ROUGE-L, BLEU and tests by swapping labels.

Words are runs of letters and digits, and every Chinese, Japanese or Korean character is one: the usual scorer knows
a to z only. Nothing is downloaded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EAST_ASIAN = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
WORD = re.compile(rf"{EAST_ASIAN}|(?:(?!{EAST_ASIAN})\w)+")
FLIPS = 10_000  # at most, where there are more ways to swap


class Words:
    """A tokenizer as rouge-score asks for one."""

    def tokenize(self, text: str) -> list[str]:
        """Lower-cased words."""
        return WORD.findall(text.lower())


def rouge_l(reference: str, text: str) -> float:
    """F-measure of the longest common subsequence of words, 0 to 1 (Lin 2004); two texts without a word are alike."""
    from rouge_score.rouge_scorer import RougeScorer

    words = Words()
    if not words.tokenize(reference) and not words.tokenize(text):
        return 1.0
    return RougeScorer(["rougeL"], tokenizer=words).score(reference, text)["rougeL"].fmeasure


def bleu(references: Sequence[str], texts: Sequence[str]) -> float:
    """Corpus BLEU, 0 to 100, as sacrebleu has it: 13a, or zh where there are East Asian characters."""
    from sacrebleu import corpus_bleu

    eastern = re.search(EAST_ASIAN, "".join(references)) is not None
    return corpus_bleu(list(texts), [list(references)], tokenize="zh" if eastern else "13a").score


@dataclass(frozen=True, slots=True)
class Test:
    """observed: the statistic. p: how often one as large comes by chance. shows: what 19 of 20 chances stay below."""

    observed: float
    p: float
    shows: float


def means_differ(differences: Sequence[float]) -> Test:
    """Sign-flip test of paired differences: is their mean 0? Exact in law where the two of a pair could be swapped."""
    d = np.asarray(differences, dtype=float)
    return _by_chance(d.mean(), _signs(len(d)) @ d / len(d))


def words_differ(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Test:
    """Do two sides use tokens equally often? Pearson's statistic of both counts, its law by swapping pairs' labels.

    Tokens of one text depend on each other, so the statistic's usual law does not hold; whole texts are swapped.
    """
    ids = {token: i for i, token in enumerate(sorted({token for pair in pairs for ids in pair for token in ids}))}
    difference = np.zeros((len(pairs), max(len(ids), 1)))
    total = np.zeros(max(len(ids), 1))
    for n, (one, other) in enumerate(pairs):
        for side, sign in ((one, 1), (other, -1)):
            for token, count in Counter(side).items():
                difference[n, ids[token]] += sign * count
                total[ids[token]] += count
    total[total == 0] = 1

    def statistic(signs: np.ndarray) -> np.ndarray:
        parts = np.array_split(signs, max(len(signs) // 256, 1))  # never all ways times all tokens at once
        return np.concatenate([((part @ difference) ** 2 / total).sum(1) for part in parts])

    return _by_chance(statistic(np.ones((1, len(pairs))))[0], statistic(_signs(len(pairs))))


def _signs(n: int) -> np.ndarray:
    """Every way to swap n pairs where there are few, else FLIPS random ones: [ways, n] of 1 and -1."""
    if 2**n < FLIPS:
        return 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    return 1.0 - 2.0 * np.random.default_rng(0).integers(0, 2, size=(FLIPS, n))


def _by_chance(observed: float, law: np.ndarray) -> Test:
    as_large = np.abs(law) >= abs(observed) * (1 - 1e-12)
    exact = len(law) < FLIPS
    p = as_large.mean() if exact else (as_large.sum() + 1) / (len(law) + 1)
    return Test(float(observed), float(p), float(np.quantile(np.abs(law), 0.95)))
