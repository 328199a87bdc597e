"""Trend of a rate over ordered weight formats.

Cochran-Armitage is the paper's number, but it treats the formats as independent samples although
all formats see the SAME episodes; the exact within-episode permutation here and the conditional
logistic regression (``stats.conditional_logistic``) are the paired tests.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from stats.intervals import normal_two_sided_p


class CochranArmitage(Struct, frozen=True, kw_only=True):
    """z and two-sided normal p of a linear trend in independent proportions."""

    z: float
    p: float
    divisor: Literal["N", "N-1"]
    continuity: float


class PermutationTrend(Struct, frozen=True, kw_only=True):
    """Exact within-episode permutation of T = Σ score·diverged."""

    statistic: int
    null_mean: float
    p_one_sided: float
    p_two_sided: float
    informative: int
    """Episodes that are neither diverged everywhere nor nowhere; the others cannot move."""


def cochran_armitage(
    events: ArrayLike,
    totals: ArrayLike,
    scores: ArrayLike,
    *,
    divisor: Literal["N", "N-1"] = "N",
    continuity: float = 0.0,
) -> CochranArmitage | None:
    """Trend test with numerator Σ s·e - p̄·Σ s·n and variance p̄(1-p̄)·Σ n(s - s̄)².

    ``N`` is the paper's variance; ``N-1`` multiplies it by N/(N-1), as some libraries do. None when
    the trend cannot be computed (no data, all or none diverged, or one score only).
    Sources: W. G. Cochran, Biometrics 10 (1954); P. Armitage, Biometrics 11 (1955).
    """
    e, n, s = (np.asarray(a, dtype=np.float64) for a in (events, totals, scores))
    whole = float(n.sum())
    if whole < 2:
        return None
    rate = float(e.sum()) / whole
    centre = float(s @ n) / whole
    variance = rate * (1 - rate) * float(n @ (s - centre) ** 2)
    if divisor == "N-1":
        variance *= whole / (whole - 1)
    if variance <= 0:
        return None
    numerator = float(s @ e - rate * (s @ n))
    shrunk = max(abs(numerator) - continuity, 0.0)
    z = math.copysign(shrunk, numerator) / math.sqrt(variance)
    return CochranArmitage(z=z, p=normal_two_sided_p(z), divisor=divisor, continuity=continuity)


def within_episode_permutation(diverged: ArrayLike, scores: ArrayLike) -> PermutationTrend | None:
    """Exact test that, within each episode, which formats diverged does not depend on the format.

    diverged: bool[episodes, formats]. scores: whole numbers[formats]. Two-sided p sums all values
    of T that lie at least as far from the null mean. None when there is no episode.

    The null distribution of one episode with m diverged formats puts equal weight on every choice
    of m formats; the distributions of the episodes are convolved, which is exact.
    """
    matrix = np.asarray(diverged, dtype=bool)
    whole_scores = [int(s) for s in np.asarray(scores).tolist()]
    if any(a != b for a, b in zip(whole_scores, np.asarray(scores).tolist(), strict=True)):
        raise ValueError("the exact permutation needs whole-number scores")
    if matrix.size == 0:
        return None
    shift = min(whole_scores)
    moved = [s - shift for s in whole_scores]
    sums = _subset_sum_distributions(moved)
    counts = matrix.sum(axis=1)
    null = np.ones(1)
    for count in counts:
        null = np.convolve(null, sums[int(count)])
    statistic = int(matrix.astype(np.int64) @ np.array(moved) @ np.ones(len(matrix), dtype=np.int64))
    offset = shift * int(counts.sum())
    mean = float(counts.sum()) * sum(moved) / len(moved)
    support = np.arange(len(null))
    far = np.abs(support - mean) >= abs(statistic - mean) - 1e-9
    upper = float(null[statistic:].sum())
    lower = float(null[: statistic + 1].sum())
    return PermutationTrend(
        statistic=statistic + offset,
        null_mean=mean + offset,
        p_one_sided=min(1.0, upper if statistic >= mean else lower),
        p_two_sided=min(1.0, float(null[far].sum())),
        informative=int(np.count_nonzero((counts > 0) & (counts < len(moved)))),
    )


def _subset_sum_distributions(scores: list[int]) -> list[NDArray[np.float64]]:
    """For each subset size m: probability of every sum of m of the scores, all subsets alike."""
    top = sum(scores)
    ways = np.zeros((len(scores) + 1, top + 1))
    ways[0, 0] = 1
    for score in scores:
        for size in range(len(scores) - 1, -1, -1):
            ways[size + 1, score:] += ways[size, : top + 1 - score]
    return [row / row.sum() for row in ways]


def slope_per_step(rates: ArrayLike, scores: ArrayLike) -> float | None:
    """Least-squares slope of rates on centred scores: change of the rate per format step."""
    r, s = np.asarray(rates, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if len(r) < 2 or np.all(s == s[0]):
        return None
    centred = s - s.mean()
    return float(centred @ r / (centred @ centred))
