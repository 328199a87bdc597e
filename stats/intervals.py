"""Intervals of one proportion: Wilson, exact binomial, and the bound when nothing happened.

Nothing observed (``n = 0``) has no interval: every function answers None then, never [0, 1].
Plain floats and no scipy at import, so that a report starts fast.
"""

from __future__ import annotations

import math

from msgspec import Struct

Z95 = 1.959964
"""Two-sided 95 % normal quantile as the paper's October revision writes it."""

Z95_AUGUST = 1.96
"""The same as the paper's August tables use it (with limits rounded to four decimals)."""

LEVEL = 0.95


class Interval(Struct, frozen=True, kw_only=True):
    """Two limits of a proportion or a difference, and how they were found."""

    low: float
    high: float
    method: str
    level: float = LEVEL


def hull(first: Interval | None, second: Interval | None) -> Interval | None:
    """The smallest interval that holds both; None only when neither is there.

    The October revision reports the hull of block bootstrap and Wilson, because a series with
    negative autocorrelation makes the block interval narrower than the one for independent episodes.
    """
    if first is None or second is None:
        return first or second
    return Interval(
        low=min(first.low, second.low),
        high=max(first.high, second.high),
        method=f"hull of {first.method} and {second.method}",
        level=first.level,
    )


def wilson(k: int, n: int, z: float = Z95, digits: int | None = None) -> Interval | None:
    """Wilson's score interval for k of n, without continuity correction, inside [0, 1].

    ``z = Z95_AUGUST, digits = 4`` gives the figures of the paper's first version.
    Source: E. B. Wilson, JASA 22 (1927) 209-212.
    """
    _check_counts(k, n)
    if n == 0:
        return None
    rate = k / n
    spread = z * z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    # The two ends are exactly 0 and 1 in theory; floating point leaves a dust of 1e-18.
    low = 0.0 if k == 0 else max(0.0, centre - half)
    high = 1.0 if k == n else min(1.0, centre + half)
    if digits is not None:
        low, high = round(low, digits), round(high, digits)
    return Interval(low=low, high=high, method="Wilson")


def exact_binomial(k: int, n: int, level: float = LEVEL) -> Interval | None:
    """The exact (Clopper-Pearson) interval for k of n.

    Source: C. J. Clopper, E. S. Pearson, Biometrika 26 (1934) 404-413, as beta quantiles.
    """
    _check_counts(k, n)
    if n == 0:
        return None
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - tail))
    return Interval(low=low, high=high, method="exact binomial", level=level)


def zero_event_upper(n: int, level: float = LEVEL) -> float | None:
    """One-sided upper limit of a rate when 0 of n happened: 1 - (1 - level)^(1/n).

    Holds only if the n episodes are independent of each other; a shared cache makes them not so.
    """
    _check_counts(0, n)
    if n == 0:
        return None
    return float(1 - (1 - level) ** (1 / n))


def normal_two_sided_p(z: float) -> float:
    """P(|Z| >= |z|) of a standard normal, accurate far into the tail."""
    return math.erfc(abs(z) / math.sqrt(2))


def student_t_quantile(level: float, degrees: int) -> float:
    """The two-sided quantile: P(|T| <= q) = level with the given degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))


def _check_counts(k: int, n: int) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no count")
