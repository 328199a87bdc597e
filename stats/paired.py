"""Paired comparisons: the same episodes or items under two conditions.

b and c count the discordant pairs: only the first condition true, only the second true.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stats.intervals import Z95, Interval, wilson

ALPHA = 0.05


class PairedDifference(Struct, frozen=True, kw_only=True):
    """Rate of the first condition minus rate of the second over the same n pairs."""

    difference: float
    interval: Interval
    n: int


def mcnemar_exact(b: int, c: int) -> float:
    """Exact two-sided McNemar: min(1, 2·P[Bin(b + c, 1/2) <= min(b, c)]), 1 when nothing differs.

    Source: Q. McNemar, Psychometrika 12 (1947) 153-157, in its exact binomial form.
    """
    if b < 0 or c < 0:
        raise ValueError("counts of discordant pairs cannot be negative")
    total = b + c
    if total == 0:
        return 1.0
    below = sum(math.comb(total, i) for i in range(min(b, c) + 1))
    # Integer arithmetic to the last step: 2·below / 2^total is exact before the one division.
    return min(1.0, below / (1 << (total - 1)))


def mcnemar_power(n: int, discordant_rate: float, net_shift: float, alpha: float = ALPHA) -> float:
    """Exact power of the exact McNemar test to see a net shift between the two conditions.

    Model: each of n pairs favours one side with p_b = (d + δ)/2 and the other with p_c = (d - δ)/2,
    where d is the discordant rate and δ the net shift. A shift above d cannot happen under d; then
    all discordance is on one side (p_b = d), as the paper's simulation silently does. The sum runs
    over D ~ Bin(n, d) and B given D ~ Bin(D, p_b/d).
    """
    if not 0 <= discordant_rate <= 1:
        raise ValueError("a discordant rate lies between 0 and 1")
    if discordant_rate == 0 or n == 0:
        return 0.0
    share = min(1.0, (1 + abs(net_shift) / discordant_rate) / 2)
    discordant = _binomial_pmf(n, discordant_rate)
    power = 0.0
    for total in np.flatnonzero(discordant > 1e-18):
        critical = _critical_count(int(total), alpha)
        if critical < 0:
            continue
        favour = _binomial_pmf(int(total), share)
        rejected = float(favour[: critical + 1].sum() + favour[int(total) - critical :].sum())
        power += float(discordant[total]) * rejected
    return power


def smallest_detectable_shift(n: int, discordant_rate: float, power: float = 0.8) -> float | None:
    """The smallest net shift that the exact test sees with the given power; None if there is none."""
    if discordant_rate == 0 or mcnemar_power(n, discordant_rate, discordant_rate) < power:
        return None
    low, high = 0.0, discordant_rate
    for _ in range(40):
        middle = (low + high) / 2
        if mcnemar_power(n, discordant_rate, middle) < power:
            low = middle
        else:
            high = middle
    return high


def discordant_rate(b: int, c: int, n: int) -> float | None:
    """(b + c) / n; None when there is no pair."""
    return (b + c) / n if n else None


def paired_difference(both: int, first_only: int, second_only: int, neither: int) -> PairedDifference | None:
    """Difference of two paired rates with Newcombe's hybrid score interval; None without pairs.

    Source: R. G. Newcombe, Statistics in Medicine 17 (1998) 2635-2650, method 10: Wilson limits of
    the two rates, joined with the correlation of the pairs (continuity-corrected when positive).
    """
    n = both + first_only + second_only + neither
    if n == 0:
        return None
    first, second = both + first_only, both + second_only
    limits_1, limits_2 = wilson(first, n, Z95), wilson(second, n, Z95)
    assert limits_1 is not None
    assert limits_2 is not None
    rate_1, rate_2 = first / n, second / n
    phi = _newcombe_phi(both, first_only, second_only, neither)
    difference = (first_only - second_only) / n
    down = _joined(rate_1 - limits_1.low, limits_2.high - rate_2, phi)
    up = _joined(limits_1.high - rate_1, rate_2 - limits_2.low, phi)
    interval = Interval(
        low=max(-1.0, difference - down), high=min(1.0, difference + up), method="Newcombe paired"
    )
    return PairedDifference(difference=difference, interval=interval, n=n)


def _joined(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * phi * first * second + second**2))


def _newcombe_phi(both: int, first_only: int, second_only: int, neither: int) -> float:
    n = both + first_only + second_only + neither
    scale = (both + first_only) * (second_only + neither) * (both + second_only) * (first_only + neither)
    if scale == 0:
        return 0.0
    product = float(both * neither - first_only * second_only)
    if product > 0:
        product = max(product - n / 2, 0.0)
    return product / math.sqrt(scale)


def _critical_count(total: int, alpha: float) -> int:
    """Largest m with 2·P[Bin(total, 1/2) <= m] < alpha; -1 when no count rejects."""
    bound = alpha / 2 * 2.0**total if total < 1000 else None
    if bound is None:
        below = np.cumsum(_binomial_pmf(total, 0.5))
        return int(np.searchsorted(below, alpha / 2, side="left")) - 1
    cumulative, critical = 0, -1
    for count in range(total + 1):
        cumulative += math.comb(total, count)
        if cumulative >= bound:
            break
        critical = count
    return critical


def _binomial_pmf(n: int, p: float) -> NDArray[np.float64]:
    """P[Bin(n, p) = i] for i = 0..n."""
    counts = np.arange(n + 1)
    if p in (0.0, 1.0):
        certain: NDArray[np.float64] = (counts == n * int(p)).astype(np.float64)
        return certain
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    log_choose = log_factorial[n] - log_factorial - log_factorial[::-1]
    pmf: NDArray[np.float64] = np.exp(log_choose + counts * math.log(p) + (n - counts) * math.log1p(-p))
    return pmf
