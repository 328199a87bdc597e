"""Rates over several orders of the same episodes: how much the order alone moves them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from stats.bootstrap import SEED
from stats.intervals import LEVEL, Interval, student_t_quantile


class BetweenOrders(Struct, frozen=True, kw_only=True):
    """Mean, standard deviation (n - 1) and t interval of a rate over orders."""

    mean: float
    standard_deviation: float | None
    interval: Interval | None
    orders: int


def between_orders(rates: Sequence[float], level: float = LEVEL) -> BetweenOrders | None:
    """Student's t interval of the mean rate over orders; None without any, no interval for a single one."""
    n = len(rates)
    if n == 0:
        return None
    mean = sum(rates) / n
    if n == 1:
        return BetweenOrders(mean=mean, standard_deviation=None, interval=None, orders=1)
    deviation = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (n - 1))
    half = student_t_quantile(level, n - 1) * deviation / math.sqrt(n)
    return BetweenOrders(
        mean=mean,
        standard_deviation=deviation,
        interval=Interval(low=mean - half, high=mean + half, method=f"t, {n - 1} d.f.", level=level),
        orders=n,
    )


def two_way_bootstrap(
    diverged: ArrayLike, resamples: int = 2_000, seed: int = SEED, level: float = LEVEL
) -> Interval | None:
    """Interval of the overall rate, episodes and orders resampled independently of each other.

    diverged: bool[orders, episodes], the same episode in one column of every order.
    """
    matrix = np.asarray(diverged, dtype=np.float64)
    if matrix.size == 0:
        return None
    orders, episodes = matrix.shape
    random = np.random.default_rng(seed)
    rows = random.integers(0, orders, size=(resamples, orders))
    columns = random.integers(0, episodes, size=(resamples, episodes))
    # Weights instead of copies: each resample is (how often a row) × (how often a column).
    row_weights = np.apply_along_axis(np.bincount, 1, rows, minlength=orders)
    column_weights = np.apply_along_axis(np.bincount, 1, columns, minlength=episodes)
    means = np.einsum("ro,oe,re->r", row_weights, matrix, column_weights, optimize=True) / matrix.size
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        low=float(low),
        high=float(high),
        method=f"two-way bootstrap, {resamples} resamples, seed {seed}",
        level=level,
    )


def mann_whitney_exact(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Exact two-sided Mann-Whitney p of two small groups; None when one is empty.

    Source: H. B. Mann, D. R. Whitney, Annals of Mathematical Statistics 18 (1947) 50-60.
    """
    if not first or not second:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(first, second, alternative="two-sided", method="exact").pvalue)
