"""Are the numbers of two requests equal, and how far are they apart? Arrays in, arrays out.

All functions look at the first n positions, at which all tokens before agree. Values are brought to
one scale by subtracting the log-sum-exp (scale ``logit``) or are there already (``logprob``).
NaN in a result means: not comparable, because something was not observed. A difference that is not
finite (a NaN or an infinity on one side only) is reported as +inf, since it is the largest there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracer.columns import Alternatives, PathColumns, PositionFlag
from tracer.episode import Scale

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_VALUE, _MERGED = int(PositionFlag.VALUE), int(PositionFlag.MERGED)
"""Plain numbers: an enum's member costs more than the comparison of a whole request."""
_PAIRS_AT_ONCE = 1 << 22
"""Bounds the memory of the id-by-id comparison (positions × k × k)."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What one arm observed at the positions of one request, ready to be compared."""

    path: PathColumns
    scale: Scale | None
    alternatives: Alternatives | None = None

    @property
    def offset(self) -> Floats | None:
        """What to subtract from the values to normalise them; None when that is not known."""
        if self.scale is Scale.LOGPROB:
            return np.zeros(len(self.path))
        if self.scale is Scale.LOGIT and self.path.log_sum_exp is not None:
            return self.path.log_sum_exp.astype(np.float64)
        return None

    def with_lists(self, alternatives: Alternatives | None) -> Numbers:
        """With the alternatives that were read; those of a path that is lost belong to no token."""
        if alternatives is not None and len(alternatives.counts) != len(self.path):
            alternatives = None
        return replace(self, alternatives=alternatives)

    @property
    def value_observed(self) -> Booleans:
        """bool[n]: the chosen token's value was observed."""
        if self.path.chosen_values is None:
            return np.zeros(len(self.path), np.bool_)
        observed: Booleans = (self.path.flags & _VALUE) != 0
        return observed

    @property
    def chosen_usable(self) -> Booleans:
        """bool[n]: the chosen token's value was observed and belongs to that token alone."""
        usable: Booleans = (self.path.flags & (_VALUE | _MERGED)) == _VALUE
        return usable

    @property
    def merged(self) -> Booleans:
        """bool[n]: one entry covered several tokens, so its numbers belong to no single token."""
        merged: Booleans = (self.path.flags & _MERGED) != 0
        return merged


def first_difference(a: NDArray[np.int32], b: NDArray[np.int32]) -> int | None:
    """First position at which two id arrays differ; a length difference is one at the end."""
    n = min(len(a), len(b))
    unequal = a[:n] != b[:n]
    if unequal.any():
        return int(unequal.argmax())
    return None if len(a) == len(b) else n


def normalised(values: NDArray[np.float32], offset: Floats) -> Floats:
    """Values on the scale of log-probabilities; NaN where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        result: Floats = values - offset
    return result


def distance(x: Floats, y: Floats) -> Floats:
    """|x − y|; 0 where both are the same infinity or both NaN, +inf where only one is not finite."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(x - y)
    odd = ~np.isfinite(apart)
    if odd.any():
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(odd, np.where(same, 0.0, np.inf), apart)
    return apart


def same(x: NDArray[np.float32], y: NDArray[np.float32]) -> Booleans:
    """Elementwise equality in which NaN equals NaN."""
    equal: Booleans = (x == y) | (np.isnan(x) & np.isnan(y))
    return equal


def equal_rows(a: PathColumns, b: PathColumns, n: int) -> Booleans | None:
    """bool[n]: fingerprints of the whole rows are equal; None unless both arms have them."""
    if a.fingerprints is None or b.fingerprints is None:
        return None
    equal: Booleans = (a.fingerprints[:n] == b.fingerprints[:n]).all(axis=1)
    return equal


def equal_alternatives(a: Alternatives, b: Alternatives, n: int) -> tuple[Booleans, Booleans]:
    """(equal, observed), bool[n] each: the observed parts of both lists are the same ids and values.

    Lists of different width are compared where both could hold something.
    """
    k = min(a.k, b.k)
    counts_a, counts_b = np.minimum(a.counts[:n], k), np.minimum(b.counts[:n], k)
    unused = np.arange(k) >= counts_a[:, None]
    cells = (a.ids[:n, :k] == b.ids[:n, :k]) & same(a.values[:n, :k], b.values[:n, :k])
    equal = (counts_a == counts_b) & (cells | unused).all(axis=1)
    return equal, (counts_a > 0) & (counts_b > 0)


def equal_chosen(a: Numbers, b: Numbers, n: int) -> tuple[Booleans, Booleans]:
    """(equal, observed), bool[n] each: the chosen token's value, and the log-sum-exp where both have it."""
    observed = a.value_observed[:n] & b.value_observed[:n]
    if a.path.chosen_values is None or b.path.chosen_values is None:
        return np.zeros(n, np.bool_), observed
    equal = same(a.path.chosen_values[:n], b.path.chosen_values[:n])
    if a.path.log_sum_exp is not None and b.path.log_sum_exp is not None:
        equal = equal & same(a.path.log_sum_exp[:n], b.path.log_sum_exp[:n])
    return equal, observed


def chosen_drift(a: Numbers, b: Numbers, n: int) -> Floats:
    """float64[n]: |Δ(value − log-sum-exp)| of the chosen token, NaN where the tokens differ."""
    offset_a, offset_b = a.offset, b.offset
    values_a, values_b = a.path.chosen_values, b.path.chosen_values
    if offset_a is None or offset_b is None or values_a is None or values_b is None:
        return np.full(n, np.nan)
    apart = distance(normalised(values_a[:n], offset_a[:n]), normalised(values_b[:n], offset_b[:n]))
    usable = a.chosen_usable[:n] & b.chosen_usable[:n]
    return np.where(usable & (a.path.token_ids[:n] == b.path.token_ids[:n]), apart, np.nan)


def listed_drift(a: Numbers, b: Numbers, n: int) -> Floats:
    """float64[n]: max over the ids in both top-k lists of |Δ(value − log-sum-exp)|.

    Where either list was not observed, or they have no id in common, the chosen token speaks alone.
    """
    chosen = chosen_drift(a, b, n)
    offset_a, offset_b = a.offset, b.offset
    if a.alternatives is None or b.alternatives is None or offset_a is None or offset_b is None:
        return chosen
    largest = np.full(n, -np.inf)
    step = max(_PAIRS_AT_ONCE // max(a.alternatives.k * b.alternatives.k, 1), 1)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        largest[part] = _largest_common(a.alternatives, b.alternatives, offset_a, offset_b, part)
    usable = (largest >= 0) & ~a.merged[:n] & ~b.merged[:n]
    return np.where(usable, largest, chosen)


def _largest_common(
    a: Alternatives, b: Alternatives, offset_a: Floats, offset_b: Floats, part: slice
) -> Floats:
    """Largest distance over ids in both lists; −inf where there is no such id."""
    in_a = np.arange(a.k) < a.counts[part, None]
    in_b = np.arange(b.k) < b.counts[part, None]
    common = (a.ids[part, :, None] == b.ids[part, None, :]) & in_a[:, :, None] & in_b[:, None, :]
    row, place_a, place_b = common.nonzero()
    apart = distance(
        normalised(a.values[part][row, place_a], offset_a[part][row]),
        normalised(b.values[part][row, place_b], offset_b[part][row]),
    )
    largest = np.full(common.shape[0], -np.inf)
    np.maximum.at(largest, row, apart)
    return largest


def gap_changes(a: Numbers, b: Numbers, n: int) -> Floats:
    """float64[n]: change of the gap between the baseline's two best tokens, b minus a.

    NaN unless both tokens stand in both lists. The log-sum-exp cancels, so the scale does not matter.
    """
    one, two = a.alternatives, b.alternatives
    if one is None or two is None or one.k < 2 or two.k < 1:
        return np.full(n, np.nan)
    in_b = np.arange(two.k) < two.counts[:n, None]
    best = (two.ids[:n] == one.ids[:n, :1]) & in_b
    second = (two.ids[:n] == one.ids[:n, 1:2]) & in_b
    usable = (one.counts[:n] >= 2) & best.any(axis=1) & second.any(axis=1) & ~a.merged[:n] & ~b.merged[:n]
    values = two.values[:n].astype(np.float64)
    here = np.arange(n)
    with np.errstate(invalid="ignore"):
        gap_b = values[here, best.argmax(axis=1)] - values[here, second.argmax(axis=1)]
        change = gap_b - (one.values[:n, 0].astype(np.float64) - one.values[:n, 1])
    return np.where(usable & np.isfinite(change), change, np.nan)


def has_non_finite(numbers: Numbers, n: int) -> bool:
    """Whether an observed number among the first n positions is NaN or +inf, or the chosen one is −inf.

    A listed −inf alone is how some engines write a token that may not be chosen, so it says nothing.
    """
    path = numbers.path
    if (
        path.chosen_values is not None
        and (~np.isfinite(path.chosen_values[:n]) & numbers.value_observed[:n]).any()
    ):
        return True
    if path.log_sum_exp is not None and not np.isfinite(path.log_sum_exp[:n]).all():
        return True
    listed = numbers.alternatives
    if listed is None:
        return False
    seen = np.arange(listed.k) < listed.counts[:n, None]
    odd = np.isnan(listed.values[:n]) | np.isposinf(listed.values[:n])
    return bool((odd & seen).any())
