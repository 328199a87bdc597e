"""Does a 0/1 series change along the run? Permutation test, quartile counts, and a slope.

A cache that fills while a run goes on makes early and late episodes differ, and then one rate
for the whole run describes neither.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from stats.bootstrap import SEED

PERMUTATIONS = 20_000


class PositionTest(Struct, frozen=True, kw_only=True):
    """Permutation test of Σ (i - (n-1)/2)·x over execution positions i."""

    statistic: float
    p: float
    permutations: int
    seed: int
    n: int


def position_test(
    series: ArrayLike, permutations: int = PERMUTATIONS, seed: int = SEED
) -> PositionTest | None:
    """Two-sided p = (1 + #{|T*| >= |T|}) / (permutations + 1); None for an empty series.

    Source: the paper's October revision; the added 1 keeps p above 0 (B. Phipson, G. K. Smyth,
    Stat. Appl. Genet. Mol. Biol. 9 (2010) 39).
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n == 0:
        return None
    positions = np.arange(n) - (n - 1) / 2
    statistic = float(positions @ values)
    shuffled = np.random.default_rng(seed).permuted(np.tile(values, (permutations, 1)), axis=1)
    # Sums of halves are exact for 0/1 data; the allowance only matters for real-valued series.
    allowance = 1e-12 * max(1.0, abs(statistic))
    as_far = int(np.count_nonzero(np.abs(shuffled @ positions) >= abs(statistic) - allowance))
    return PositionTest(
        statistic=statistic, p=(1 + as_far) / (permutations + 1), permutations=permutations, seed=seed, n=n
    )


def quartile_counts(series: ArrayLike) -> tuple[int, int, int, int]:
    """How many of a 0/1 series in execution order fall into each quarter of the run."""
    parts = np.array_split(np.asarray(series), 4)
    first, second, third, fourth = (int(np.sum(part)) for part in parts)
    return first, second, third, fourth


def slope_along_run(series: ArrayLike) -> float | None:
    """Least-squares slope of a series per position (drift along the run); None below two values.

    Positions without a value (NaN) are left out.
    """
    values = np.asarray(series, dtype=np.float64)
    positions = np.arange(len(values), dtype=np.float64)
    seen = np.isfinite(values)
    if np.count_nonzero(seen) < 2:
        return None
    centred = positions[seen] - positions[seen].mean()
    return float(centred @ values[seen] / (centred @ centred))
