"""Conditional logistic regression of divergence on the format's score, stratified by episode.

Conditioning on how many formats diverged in an episode removes the episode's own difficulty, so
only episodes that diverged in some formats but not in all carry information.
Source: N. E. Breslow, N. E. Day, Statistical Methods in Cancer Research I (1980), chapter 7.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from stats.intervals import Z95, Interval

STEPS = 100


class ConditionalLogistic(Struct, frozen=True, kw_only=True):
    """Log odds ratio per format step, its standard error, and what it rests on."""

    beta: float
    standard_error: float
    odds_ratio: float
    odds_ratio_interval: Interval
    informative: int
    dropped: int


def conditional_logistic(diverged: ArrayLike, scores: ArrayLike) -> ConditionalLogistic | None:
    """Exact conditional maximum likelihood of one slope.

    diverged: bool[episodes, formats]. scores: float[formats]. None when no episode is informative,
    or when every informative episode diverged in its highest (or lowest) formats only: the
    likelihood then grows without end and there is no finite estimate.
    """
    matrix = np.asarray(diverged, dtype=bool)
    s = np.asarray(scores, dtype=np.float64)
    if matrix.size == 0:
        return None
    s = s - s.mean()
    counts = matrix.sum(axis=1)
    informative = matrix[(counts > 0) & (counts < matrix.shape[1])]
    observed = float((informative @ s).sum())
    strata = np.bincount(informative.sum(axis=1), minlength=len(s) + 1)
    ordered = np.sort(s)
    lowest = sum(int(strata[m]) * float(ordered[:m].sum()) for m in range(len(s) + 1))
    highest = sum(int(strata[m]) * float(ordered[len(s) - m :].sum()) for m in range(len(s) + 1))
    if not lowest + 1e-9 < observed < highest - 1e-9:
        return None
    beta = 0.0
    information = 0.0
    for _ in range(STEPS):
        mean, information = _moments(beta, s, strata)
        step = (observed - mean) / information
        # A long Newton step can leave the region where the exponentials are representable.
        step = max(-2.0, min(2.0, step))
        beta += step
        if abs(step) < 1e-13:
            break
    error = 1 / math.sqrt(_moments(beta, s, strata)[1])
    return ConditionalLogistic(
        beta=beta,
        standard_error=error,
        odds_ratio=math.exp(beta),
        odds_ratio_interval=Interval(
            low=math.exp(beta - Z95 * error), high=math.exp(beta + Z95 * error), method="Wald"
        ),
        informative=len(informative),
        dropped=len(matrix) - len(informative),
    )


def _moments(beta: float, scores: NDArray[np.float64], strata: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and variance of Σ score·diverged under the conditional likelihood.

    Elementary symmetric sums of exp(beta·score) and their first two derivatives by recursion.
    """
    size = len(scores)
    sums = np.zeros((3, size + 1))
    sums[0, 0] = 1
    for score in scores:
        weight = math.exp(beta * float(score))
        zeroth, first, second = sums[:, :-1].copy()
        sums[0, 1:] += weight * zeroth
        sums[1, 1:] += weight * (first + score * zeroth)
        sums[2, 1:] += weight * (second + 2 * score * first + score**2 * zeroth)
    mean = sums[1] / sums[0]
    variance = sums[2] / sums[0] - mean**2
    return float(strata @ mean), float(strata @ variance)
