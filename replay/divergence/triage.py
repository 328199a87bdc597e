"""Triage of a flip: is it as large as this arm pair's ordinary drift explains?

The reference is the drift at agreeing positions of the OTHER requests of the same two arms, so that a
flip cannot vouch for itself. What is held against it is ``Flip.least_drift``: the margin that the flip
had to cross, counted per token (a lead of m falls when one token loses m/2 and the other gains m/2).

================  =====================================================================================
verdict           when
================  =====================================================================================
within drift      least drift ≤ the reference's 99th percentile. A flip that ordinary drift made has a
                  drift drawn from the reference, so about one in a hundred such flips lies above
unexplained       above that
suspected         above ``FAR`` times the LARGEST reference drift, unless some of that is of the chosen
corruption        token alone, which bounds it from below only; or a number that is not finite; or one
                  arm repeats a single token ``REPETITION`` times or more to its end and the other does
                  not
too few           fewer than ``FEWEST_POSITIONS`` reference positions: with n below 50 the largest of
positions         them stands for less than the 98th percentile, so nothing can be told from it
================  =====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from replay.divergence.numbers import Floats, has_non_finite
from replay.divergence.request_verdict import RequestPair
from replay.verdicts import DriftFrom, Flip, ReferenceDrift, Triage

FEWEST_POSITIONS = 50
FAR = 4.0
REPETITION = 8


class OthersDrift:
    """The agreeing positions of all requests of an arm pair, ready to leave one request out at a time."""

    def __init__(self, drift: Sequence[Floats], drift_from: Sequence[DriftFrom | None]) -> None:
        """One of each for each request, in order; drift without unobserved positions."""
        owner = np.repeat(np.arange(len(drift)), [len(one) for one in drift])
        values = np.concatenate([*drift, np.empty(0)])
        # Sorted once: each flip then needs one pass over the positions instead of a sort.
        order = np.argsort(values, kind="stable")
        self._values, self._owner = values[order], owner[order]
        self._chosen_only = [kind is DriftFrom.CHOSEN for kind in drift_from]
        self._sizes = [len(one) for one in drift]

    def without(self, request_place: int) -> ReferenceDrift:
        """Quantiles over all requests but the one at this place.

        A quantile is an observed value (the next higher one): interpolation would make NaN of +inf.
        """
        kept = self._values[self._owner != request_place]
        if not kept.size:
            return ReferenceDrift(positions=0)
        q50, q95, q99 = (float(kept[math.ceil(q * (len(kept) - 1))]) for q in (0.50, 0.95, 0.99))
        used = [place for place, size in enumerate(self._sizes) if size and place != request_place]
        chosen_only = any(self._chosen_only[place] for place in used)
        return ReferenceDrift(
            positions=len(kept),
            requests=len(used),
            drift_from=DriftFrom.CHOSEN if chosen_only else DriftFrom.TOP_K,
            q50=q50,
            q95=q95,
            q99=q99,
            largest=float(kept[-1]),
        )


def triage(flip: Flip, pair: RequestPair, reference: ReferenceDrift) -> Flip:
    """The flip with its reference, its triage and the reason for it."""
    verdict, reason = _corruption(flip, pair) or _against_reference(flip, reference)
    return replace(flip, reference=reference, triage=verdict, triage_reason=reason)


def _corruption(flip: Flip, pair: RequestPair) -> tuple[Triage, str] | None:
    """Signs that need no reference."""
    for side, numbers in ((pair.a, pair.listed_a), (pair.b, pair.listed_b)):
        if has_non_finite(numbers, len(numbers.path)):
            return Triage.SUSPECTED_CORRUPTION, f"{side.arm.label} has a number that is not finite"
    runs = [
        closing_run(numbers.path.token_ids[flip.position :]) for numbers in (pair.numbers_a, pair.numbers_b)
    ]
    if max(runs) >= REPETITION > min(runs):
        side = pair.a if runs[0] > runs[1] else pair.b
        return Triage.SUSPECTED_CORRUPTION, f"{side.arm.label} ends in {max(runs)} times the same token"
    return None


def _against_reference(flip: Flip, reference: ReferenceDrift) -> tuple[Triage, str]:
    n, q99, largest = reference.positions, reference.q99, reference.largest
    if n < FEWEST_POSITIONS or q99 is None or largest is None:
        return (
            Triage.TOO_FEW_POSITIONS,
            f"the other requests of this pair agree at {n} positions; {FEWEST_POSITIONS} are needed",
        )
    need = flip.least_drift
    if need is None:
        if flip.length_difference:
            return Triage.UNEXPLAINED, "one arm ended here, so there is no margin to hold against the drift"
        return Triage.UNEXPLAINED, "the margin at the flip was not observed"
    said = f"it takes a drift of {'at least ' if flip.least_drift_is_bound else ''}{need:.3g}"
    positions = f"{n} other positions" + (f", {reference.caveat}," if reference.caveat else "")
    if need <= q99:
        return Triage.WITHIN_DRIFT, f"{said}; 99 % of {positions} drift by up to {q99:.3g}"
    # The chosen token's drift is never larger, so a flip beyond it may still be within the drift.
    bounded_below = reference.drift_from is DriftFrom.CHOSEN
    if not bounded_below and largest > 0 and need > FAR * largest:
        return (
            Triage.SUSPECTED_CORRUPTION,
            f"{said}, over {FAR:g} times the largest of {n} others, {largest:.3g}",
        )
    return Triage.UNEXPLAINED, f"{said}; 99 % of {positions} drift by {q99:.3g} at most"


def closing_run(ids: NDArray[np.int32]) -> int:
    """How many times the last token stands at the end."""
    if not len(ids):
        return 0
    unequal = np.flatnonzero(ids != ids[-1])
    return len(ids) - (int(unequal[-1]) + 1 if unequal.size else 0)
