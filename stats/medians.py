"""Medians of where episodes first flip, with bootstrap intervals over episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from stats.bootstrap import SEED
from stats.intervals import LEVEL, Interval

RESAMPLES = 2_000


class Median(Struct, frozen=True, kw_only=True):
    """A median over the episodes that have the number; even counts average the middle two."""

    value: float
    interval: Interval | None
    n: int


def median_with_interval(
    values: Sequence[float | None], resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> Median | None:
    """Median and percentile interval of resampled episodes; None when no episode has a value.

    Episodes without a value (no flip, or a changed prompt) are left out before resampling. A single
    value has no interval.
    """
    seen = np.array([v for v in values if v is not None], dtype=np.float64)
    n = len(seen)
    if n == 0:
        return None
    interval = None
    if n > 1:
        chosen = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
        medians = np.median(seen[chosen], axis=1)
        low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
        interval = Interval(
            low=float(low),
            high=float(high),
            method=f"bootstrap over episodes, {resamples} resamples, seed {seed}",
            level=level,
        )
    return Median(value=float(np.median(seen)), interval=interval, n=n)
