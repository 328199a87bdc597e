"""Item differences that share problems: the same GSM8K problem is answered by several models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stats.bootstrap import RESAMPLES, SEED
from stats.intervals import LEVEL, Interval
from stats.paired import mcnemar_exact


class ClusteredDifference(Struct, frozen=True, kw_only=True):
    """Mean difference over items, resampled by problem."""

    mean: float
    interval: Interval
    standard_error: float
    naive_standard_error: float | None
    """As if items were independent: sd of the differences (n - 1) over sqrt(n)."""
    items: int
    problems: int


def problem_bootstrap(
    problems: Sequence[int],
    groups: Sequence[Hashable],
    differences: Sequence[float],
    resamples: int = RESAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> ClusteredDifference | None:
    """Mean of item differences, problems resampled within strata; None without items.

    problems[i] names item i's problem and groups[i] its configuration. A stratum is the set of
    problems that occur in the same groups; the larger sets of groups are drawn first. Source: the paper's
    October revision.
    """
    if not differences:
        return None
    totals: dict[int, float] = {}
    membership: dict[int, list[Hashable]] = {}
    for problem, group, value in zip(problems, groups, differences, strict=True):
        totals[problem] = totals.get(problem, 0.0) + value
        membership.setdefault(problem, []).append(group)
    sums = np.zeros(resamples)
    random = np.random.default_rng(seed)
    for members in _strata(membership):
        values = np.array([totals[problem] for problem in members])
        sums += values[random.integers(0, len(values), size=(resamples, len(values)))].sum(axis=1)
    means = sums / len(differences)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    raw: NDArray[np.float64] = np.array(differences, dtype=np.float64)
    return ClusteredDifference(
        mean=float(raw.mean()),
        interval=Interval(
            low=float(low),
            high=float(high),
            method=f"bootstrap over problems, {resamples} resamples, seed {seed}",
            level=level,
        ),
        standard_error=float(means.std(ddof=1)),
        naive_standard_error=float(raw.std(ddof=1) / np.sqrt(len(raw))) if len(raw) > 1 else None,
        items=len(raw),
        problems=len(totals),
    )


def _strata(membership: Mapping[int, list[Hashable]]) -> list[list[int]]:
    """Problems by the groups they occur in, most groups first, problems in ascending order."""
    strata: dict[tuple[str, ...], list[int]] = {}
    for problem in sorted(membership):
        key = tuple(sorted(str(group) for group in membership[problem]))
        strata.setdefault(key, []).append(problem)
    return [strata[key] for key in sorted(strata, key=lambda key: (-len(key), key))]


class SignTest(Struct, frozen=True, kw_only=True):
    """Exact sign test over problems, by the sign of each problem's summed difference."""

    positive: int
    negative: int
    p: float
    most_on_one_problem: int
    """Largest number of items of one problem that differ."""


def sign_test_by_problem(problems: Sequence[int], differences: Sequence[float]) -> SignTest:
    """Sign test over problems; items of one problem count once."""
    totals: dict[int, float] = {}
    differing: dict[int, int] = {}
    for problem, value in zip(problems, differences, strict=True):
        totals[problem] = totals.get(problem, 0.0) + value
        differing[problem] = differing.get(problem, 0) + (value != 0)
    positive = sum(total > 0 for total in totals.values())
    negative = sum(total < 0 for total in totals.values())
    return SignTest(
        positive=positive,
        negative=negative,
        p=mcnemar_exact(positive, negative),
        most_on_one_problem=max(differing.values(), default=0),
    )
