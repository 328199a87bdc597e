"""A rate over requests whose interval respects that requests of one episode belong together."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from stats.bootstrap import RESAMPLES, SEED
from stats.intervals import LEVEL, Interval, hull, wilson


class ClusteredRate(Struct, frozen=True, kw_only=True):
    """events of total over episodes, as a ratio of sums."""

    rate: float
    events: int
    total: int
    episodes: int
    interval: Interval


def clustered_rate(
    events: ArrayLike, totals: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED
) -> ClusteredRate | None:
    """Σ events / Σ totals with an interval over episodes; None when nothing was compared.

    events and totals: int[episodes]. Episodes are resampled whole (ratio of sums, percentile limits).
    Where all episodes say the same there is nothing to resample; the limits are then Wilson's with
    the number of EPISODES as n, as if all requests of an episode were one observation. The reported
    interval always covers that one's limits when no event, or nothing but events, was seen.
    """
    e, t = np.asarray(events, dtype=np.int64), np.asarray(totals, dtype=np.int64)
    e, t = e[t > 0], t[t > 0]
    episodes = len(t)
    if episodes == 0:
        return None
    found, total = int(e.sum()), int(t.sum())
    return ClusteredRate(
        rate=found / total,
        events=found,
        total=total,
        episodes=episodes,
        interval=_interval(e, t, resamples, seed),
    )


def _interval(e: np.ndarray, t: np.ndarray, resamples: int, seed: int) -> Interval:
    episodes = len(t)
    rate = int(e.sum()) / int(t.sum())
    whole = wilson(round(rate * episodes), episodes)
    assert whole is not None
    same = bool(np.all(e * t[0] == e[0] * t))
    if same:
        return Interval(low=whole.low, high=whole.high, method="Wilson, n = episodes")
    chosen = np.random.default_rng(seed).integers(0, episodes, size=(resamples, episodes))
    ratios = e[chosen].sum(axis=1) / t[chosen].sum(axis=1)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    drawn = Interval(
        low=float(low),
        high=float(high),
        method=f"bootstrap over episodes, {resamples} resamples, seed {seed}",
    )
    # A handful of episodes cannot be resampled into what was never seen: keep the wider limits then.
    joined = hull(drawn, whole) if episodes < FEW_EPISODES else drawn
    assert joined is not None
    return joined


FEW_EPISODES = 10
"""Below this many episodes the percentile limits are joined with Wilson's over episodes."""
