"""By what two requests are equal: the strongest evidence that both arms offer, never absent numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replay.divergence.numbers import (
    Booleans,
    Numbers,
    chosen_drift,
    equal_alternatives,
    equal_chosen,
    equal_rows,
)
from replay.verdicts import Evidence
from tracer.columns import Alternatives

ReadAlternatives = Callable[[], Alternatives | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the numbers say about the first n positions of two requests."""

    evidence: Evidence | None
    """The weakest evidence among the positions; None when some position has no numbers."""
    first_unequal: int | None
    unobserved_positions: int

    @property
    def equal(self) -> bool:
        """Every position was compared and no number differed."""
        return self.first_unequal is None and self.unobserved_positions == 0


def compare_numbers(
    a: Numbers, b: Numbers, n: int, read_a: ReadAlternatives, read_b: ReadAlternatives
) -> Finding:
    """Compare the numbers at the first n positions, reading no more than is needed.

    Rows (by fingerprint) settle it alone. Otherwise the top-k lists of both arms are read, and a
    position without them falls back to the chosen token's value.
    """
    rows = equal_rows(a.path, b.path, n)
    if rows is not None:
        return Finding(Evidence.ROW, _first_false(rows), 0)
    if a.scale is not b.scale or a.scale is None:
        return _across_scales(a, b, n)
    equal, observed = equal_chosen(a, b, n)
    listed = np.zeros(n, np.bool_)
    alternatives_a, alternatives_b = read_a(), read_b()
    if alternatives_a is not None and alternatives_b is not None:
        equal_lists, listed = equal_alternatives(alternatives_a, alternatives_b, n)
        equal = np.where(listed, equal_lists & (equal | ~observed), equal)
    compared = listed | observed
    evidence = None
    if n and compared.all():
        evidence = Evidence.TOP_K if listed.all() else Evidence.CHOSEN
    return Finding(evidence, _first_false(equal | ~compared), int(n - compared.sum()))


def _across_scales(a: Numbers, b: Numbers, n: int) -> Finding:
    """Logits against logprobs: a difference can be seen, bit identity cannot."""
    apart = chosen_drift(a, b, n)
    differs = apart > 0
    known = not np.isnan(apart).any() and n > 0 and bool(differs.any())
    return Finding(Evidence.CHOSEN if known else None, _first_false(~differs), int((~differs).sum()))


def _first_false(equal: Booleans) -> int | None:
    return None if equal.all() else int(equal.argmin())
