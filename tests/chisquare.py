"""Do counts follow exact probabilities? Pearson's test, with a false alarm in one of a million runs of all the tests.

The family of tests is given 1e-6 in all, shared evenly by at most FAMILY of them (Bonferroni). Seeds are fixed, so a
test that passes once passes always; the level says how surprising a failure after a change would be.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6
FAMILY = 1000
LEVEL = FALSE_ALARM / FAMILY
SMALLEST_CELL = 5


def pooled(counts: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observed and expected counts; cells that expect fewer than 5 are pooled, those that cannot be left out."""
    counts, probabilities = np.asarray(counts, float).ravel(), np.asarray(probabilities, float).ravel()
    assert counts.shape == probabilities.shape
    assert abs(probabilities.sum() - 1) < 1e-6
    assert counts[probabilities == 0].sum() == 0, "something happened that has probability 0"
    expected = probabilities / probabilities.sum() * counts.sum()
    order = np.argsort(expected)
    order = order[expected[order] > 0]
    counts, expected = counts[order], expected[order]
    few = int((expected < SMALLEST_CELL).sum())
    while 0 < few < len(expected) and expected[:few].sum() < SMALLEST_CELL:
        few += 1
    if few:
        counts = np.append(counts[few:], counts[:few].sum())
        expected = np.append(expected[few:], expected[:few].sum())
    return counts, expected


def statistic(counts: np.ndarray, probabilities: np.ndarray) -> tuple[float, int]:
    """Pearson's chi-square and its degrees of freedom."""
    observed, expected = pooled(counts, probabilities)
    return float(((observed - expected) ** 2 / expected).sum()), len(expected) - 1


def critical(freedom: int) -> float:
    """The chi-square above which a test fails."""
    return float(stats.chi2.isf(LEVEL, freedom))


def assert_follows(counts: np.ndarray, probabilities: np.ndarray, what: object = "") -> None:
    """Fail unless the counts could be draws from these probabilities."""
    chi2, freedom = statistic(counts, probabilities)
    if not freedom:  # one cell is left: there is nothing to compare
        return
    assert chi2 <= critical(freedom), (
        f"{what}: chi-square {chi2:.1f} at {freedom} degrees of freedom, p = {stats.chi2.sf(chi2, freedom):.1e}"
    )


def assert_mean(values: np.ndarray, mean: float, what: object = "") -> None:
    """Fail unless independent bounded values could have this mean (normal approximation, same level)."""
    values = np.asarray(values, float)
    error = values.std() / len(values) ** 0.5
    if error == 0:
        assert abs(values.mean() - mean) < 1e-6, what
        return
    z = (values.mean() - mean) / error
    assert abs(z) < stats.norm.isf(LEVEL / 2), f"{what}: mean {values.mean():.5f} for {mean:.5f}, z = {z:.1f}"


def power(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """How surely a test of this size catches what made these counts, which are no draws from the probabilities.

    Under the fault the statistic is non-central chi-square. Its non-centrality is estimated from the counts (statistic
    less freedom is unbiased) and taken 4 standard deviations lower: a safe lower bound. 1 where counts lie in cells of
    probability 0 so often that a run without one is rarer than one in a million.
    """
    impossible = np.asarray(counts)[np.asarray(probabilities) == 0].sum()
    if impossible:
        return 1.0 if impossible > 60 else 0.0
    chi2, freedom = statistic(counts, probabilities)
    excess = chi2 - freedom
    low = excess - 4 * (2 * (freedom + 2 * max(excess, 0))) ** 0.5
    if low <= 0:
        return 0.0
    if low > 1e4:  # the far tail, where scipy's series is slow
        return float(stats.norm.sf((critical(freedom) - freedom - low) / (2 * (freedom + 2 * low)) ** 0.5))
    return float(stats.ncx2.sf(critical(freedom), freedom, low))
