"""Block bootstrap of a rate over episodes in execution order, and how long the blocks should be.

A shared cache couples neighbouring episodes, so resampling single episodes would claim too much.
Moving blocks never wrap (H. R. Kuensch, Annals of Statistics 17 (1989)); circular blocks wrap
around the end (D. N. Politis, J. P. Romano, 1992). Every result states its block length,
resamples and seed.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from stats.intervals import LEVEL, Interval, hull, wilson

RESAMPLES = 10_000
SEED = 20261007

Limits = Literal["quantile", "sorted"]
"""How the limits are read off the resampled means: ``np.quantile`` (October), or the values at
index 0.025·R and 0.975·R of the sorted list (August: sorted[250] and sorted[9750] of 10,000)."""


class BlockBootstrap(Struct, frozen=True, kw_only=True):
    """A bootstrap interval of a mean, with everything needed to get it again."""

    mean: float
    interval: Interval | None
    """None for a constant series: every resample is the same and says nothing."""
    standard_error: float | None
    kind: Literal["circular", "moving"]
    block_length: int
    resamples: int
    seed: int
    n: int


def politis_white_block(series: ArrayLike) -> float | None:
    """The optimal circular block length; None for a constant series or fewer than 3 values.

    Source: D. N. Politis, H. White, Econometric Reviews 23 (2004) 53-70, with the correction of
    A. Patton, D. N. Politis, H. White, Econometric Reviews 28 (2009) 372-375. The bandwidth is
    twice the lag after which K_N = max(5, [log10 n]) neighbouring autocorrelations stay below
    2·sqrt(log10 n / n); the flat-top window then weighs the autocovariances.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n < 3 or np.all(values == values[0]):
        return None
    deviations = values - values.mean()
    run = max(5, int(np.log10(n)))
    largest_lag = math.ceil(math.sqrt(n)) + run
    covariance, correlation = _lagged(deviations, largest_lag)
    small = correlation < 2 * math.sqrt(math.log10(n) / n)
    bandwidth = largest_lag
    for first in range(largest_lag - run + 1):
        if small[first : first + run].all():
            bandwidth = min(2 * max(first, 1), largest_lag)
            break
    lags = np.arange(1, bandwidth + 1)
    window = np.minimum(1.0, 2 * (1 - lags / bandwidth))
    weighted = window * covariance[lags]
    slope = 2 * float(np.sum(lags * weighted))
    long_run = float(covariance[0] + 2 * np.sum(weighted))
    ceiling = math.ceil(min(3 * math.sqrt(n), n / 3))
    if long_run == 0:
        return float(ceiling)
    length = (2 * slope**2 / (4 / 3 * long_run**2)) ** (1 / 3) * n ** (1 / 3)
    return float(min(length, ceiling))


def _lagged(deviations: NDArray[np.float64], largest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Autocovariance (divided by n) and absolute autocorrelation at lags 0..largest.

    The correlation at lag i is scaled by the sums of squares without the last and without the
    first i + 1 values, as the reference implementation of the rule does.
    """
    n = len(deviations)
    covariance = np.zeros(largest + 1)
    correlation = np.zeros(largest + 1)
    squares = np.concatenate([[0.0], np.cumsum(deviations**2)])
    for lag in range(min(largest + 1, n)):
        product = float(deviations[lag:] @ deviations[: n - lag])
        head = squares[max(n - lag - 1, 0)]
        tail = squares[n] - squares[min(lag + 1, n)]
        covariance[lag] = product / n
        scale = math.sqrt(max(head * tail, 0.0))
        correlation[lag] = abs(product) / scale if scale > 0 else 0.0
    return covariance, correlation


def october_block_length(series: ArrayLike) -> int | None:
    """max(ceil(n^(1/3)), ceil(Politis-White)); None where that rule has no answer."""
    values = np.asarray(series, dtype=np.float64)
    optimal = politis_white_block(values)
    if optimal is None:
        return None
    # A cube root in floating point can land a hair above a whole number, which would add 1.
    cube_root = math.ceil(round(math.cbrt(len(values)), 9))
    return max(cube_root, math.ceil(optimal))


def resampled_means(
    series: ArrayLike,
    block_length: int,
    *,
    kind: Literal["circular", "moving"] = "circular",
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> NDArray[np.float64]:
    """Means of block-resampled series; float64[resamples].

    ceil(n/L) blocks are drawn and the last is cut so that n values remain. Sums of blocks come
    from one running sum, so a resample costs one look-up a block and not one a value.
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if not 1 <= block_length <= n:
        raise ValueError(f"a block of {block_length} does not fit into a series of {n}")
    wraps = kind == "circular"
    blocks = -(-n // block_length)
    last = n - (blocks - 1) * block_length
    starts = n if wraps else n - block_length + 1
    chosen = np.random.default_rng(seed).integers(0, starts, size=(resamples, blocks))
    running = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values]))])
    at = np.arange(starts)
    whole = running[at + block_length] - running[at]
    cut = running[at + last] - running[at]
    totals: NDArray[np.float64] = whole[chosen[:, :-1]].sum(axis=1) + cut[chosen[:, -1]]
    return totals / n


def block_bootstrap(
    series: ArrayLike,
    block_length: int | None = None,
    *,
    kind: Literal["circular", "moving"] = "circular",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    limits: Limits = "quantile",
    level: float = LEVEL,
) -> BlockBootstrap | None:
    """Percentile interval of the mean of a series in execution order; None for an empty series.

    Without a block length the October rule chooses it. The paper's August interval is
    ``kind="moving", block_length=10, limits="sorted"`` (its random stream was another).
    """
    values = np.asarray(series, dtype=np.float64)
    n = len(values)
    if n == 0:
        return None
    length = block_length if block_length is not None else october_block_length(values)
    constant = bool(np.all(values == values[0]))
    if constant or length is None:
        return BlockBootstrap(
            mean=float(values.mean()),
            interval=None,
            standard_error=None,
            kind=kind,
            block_length=length or 1,
            resamples=0,
            seed=seed,
            n=n,
        )
    means = resampled_means(values, length, kind=kind, resamples=resamples, seed=seed)
    low, high = read_limits(means, limits, level)
    method = f"{kind} block bootstrap, L = {length}, {resamples} resamples, seed {seed}"
    return BlockBootstrap(
        mean=float(values.mean()),
        interval=Interval(low=low, high=high, method=method, level=level),
        standard_error=float(means.std(ddof=1)),
        kind=kind,
        block_length=length,
        resamples=resamples,
        seed=seed,
        n=n,
    )


def read_limits(
    means: NDArray[np.float64], limits: Limits = "quantile", level: float = LEVEL
) -> tuple[float, float]:
    """The two percentile limits of resampled values, in the way that ``limits`` names."""
    tail = (1 - level) / 2
    if limits == "quantile":
        low, high = np.quantile(means, [tail, 1 - tail])
        return float(low), float(high)
    ordered = np.sort(means)
    top = len(ordered) - 1
    return (
        float(ordered[min(round(tail * len(ordered)), top)]),
        float(ordered[min(round((1 - tail) * len(ordered)), top)]),
    )


def rate_interval(series: ArrayLike, **options: int) -> Interval | None:
    """The October interval of a 0/1 series: hull of circular blocks and Wilson; None when empty.

    A constant series has no bootstrap; it then keeps Wilson's interval alone.
    """
    values = np.asarray(series, dtype=np.float64)
    if len(values) == 0:
        return None
    found = block_bootstrap(values, options.get("block_length"), seed=options.get("seed", SEED))
    return hull(found.interval if found else None, wilson(int(values.sum()), len(values)))
