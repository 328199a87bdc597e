"""The numbers behind the tokens of one request, as arrays.

Three sizes: the path (what verdicts read), the alternatives (top-k), and whole rows. Values are
on the scale that ``Request.scale`` names. A column that was not observed is None; a position of
an observed column that was not observed has its flag cleared, whatever the array holds there.
"""

from dataclasses import dataclass, field
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray


class PositionFlag(IntFlag):
    """Facts about one output position."""

    VALUE = 1
    """The chosen token's value was observed."""
    ALTERNATIVES = 2
    """At least one alternative was observed."""
    FORCED = 4
    """Chosen by a grammar or by stop handling: it has no margin. Not set by the way ``forced``."""
    MERGED = 8
    """One probability entry covered several tokens, so positions are not tokens here."""
    EXACT_TIE = 16
    """The two best values were equal; the lower id was chosen."""


@dataclass(frozen=True, slots=True)
class PathColumns:
    """The chosen path of one request of n output tokens.

    token_ids: int32[n]. chosen_values: float32[n], logit or logprob. log_sum_exp: float32[n],
    natural log of the sum of exp of the row. fingerprints: uint64[n, 2], low and high half of
    the 128-bit xxh3 of the full float32 row. flags: uint8[n] of PositionFlag.
    """

    token_ids: NDArray[np.int32]
    flags: NDArray[np.uint8]
    chosen_values: NDArray[np.float32] | None = None
    log_sum_exp: NDArray[np.float32] | None = None
    fingerprints: NDArray[np.uint64] | None = None
    stored: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The bytes that these columns were read from: equal bytes are equal columns. A changed copy has none."""

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Top-k of one request of n output tokens, best first, equal values by ascending id.

    ids: int32[n, k]. values: float32[n, k]. counts: uint8[n], how many of the k are observed.
    """

    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    counts: NDArray[np.uint8]

    @property
    def k(self) -> int:
        """Width of the table; a row may hold fewer."""
        return int(self.ids.shape[1])


def empty_path() -> PathColumns:
    """The path of a request that produced no token."""
    return PathColumns(token_ids=np.empty(0, np.int32), flags=np.empty(0, np.uint8))


def margins(alternatives: Alternatives, flags: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Best value minus second best at each position; float64[n], NaN where there is no margin.

    A margin is the same on both scales, since the log-sum-exp cancels. Forced and merged
    positions, positions with fewer than two alternatives, and non-finite values have none.
    """
    n = len(alternatives.counts)
    if alternatives.k < 2:
        return np.full(n, np.nan)
    with np.errstate(invalid="ignore"):
        gap = alternatives.values[:, 0].astype(np.float64) - alternatives.values[:, 1]
    barred = (flags & (PositionFlag.FORCED | PositionFlag.MERGED)) != 0
    usable = (alternatives.counts >= 2) & ~barred & np.isfinite(gap)
    return np.where(usable, gap, np.nan)
