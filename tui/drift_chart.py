"""Drift and margin of one request as rows of characters on one log10 axis. No drawing, no styles."""

from __future__ import annotations

from math import ceil, floor

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

MOST_DECADES = 8
_BLOCKS = " ▁▂▃▄▅▆▇█"


class DriftChart(Struct, frozen=True):
    """A chart of ``columns`` by ``rows`` cells.

    bars: rows of block characters, top row first. margin_row: int[columns], the row in which the
    margin stands, -1 where there is none. column_of: int[positions]. known: bool[columns].
    zero: bool[columns], drift observed and exactly 0.
    """

    bars: tuple[str, ...]
    margin_row: NDArray[np.int64]
    column_of: NDArray[np.int64]
    known: NDArray[np.bool_]
    zero: NDArray[np.bool_]
    top: int
    """Power of ten at the upper edge."""
    bottom: int


def drift_chart(
    drift: NDArray[np.float64], margin: NDArray[np.float64], *, columns: int, rows: int
) -> DriftChart:
    """Bin positions into columns (largest drift, smallest margin) and scale both to the rows."""
    n = len(drift)
    columns, rows = max(columns, 1), max(rows, 1)
    stretch = min(max(columns // n, 1), 4) if n else 1
    used = min(n * stretch, columns)
    column_of = np.arange(n) * used // max(n, 1)
    top, bottom = _decades(drift, margin)
    if n == 0:
        empty = np.zeros(0, np.bool_)
        return DriftChart((), np.zeros(0, np.int64), column_of, empty, empty, top, bottom)
    at = (np.arange(used) // stretch if used == n * stretch else np.arange(used) * n // used).astype(np.int64)
    height = _binned(drift, at, n, np.fmax, used, stretch)
    low = _binned(margin, at, n, np.fmin, used, stretch)
    eighths = np.nan_to_num(_scaled(height, top, bottom) * rows * 8).round().astype(np.int64)
    zero = height == 0.0
    known = np.isfinite(height) | np.isinf(height)
    eighths = np.where(known & ~zero, np.clip(eighths, 1, rows * 8), 0)
    bars = tuple(
        "".join(_BLOCKS[min(max(int(e) - 8 * (rows - 1 - row), 0), 8)] for e in eighths)
        for row in range(rows)
    )
    place = np.nan_to_num((1.0 - _scaled(low, top, bottom)) * rows).astype(np.int64)
    first_of_position = np.arange(used) % stretch == 0 if used == n * stretch else np.ones(used, np.bool_)
    margin_row = np.where(np.isfinite(low) & first_of_position, np.clip(place, 0, rows - 1), -1)
    return DriftChart(bars, margin_row, column_of, known, zero, top, bottom)


def _binned(
    values: NDArray[np.float64], at: NDArray[np.int64], n: int, fold: np.ufunc, used: int, stretch: int
) -> NDArray[np.float64]:
    if used == n * stretch:
        return values[at]
    folded: NDArray[np.float64] = fold.reduceat(values, at)
    return folded


def _scaled(values: NDArray[np.float64], top: int, bottom: int) -> NDArray[np.float64]:
    """0 at the lower edge, 1 at the upper; clamped, so that 0 and infinity can be drawn too."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip((np.log10(np.abs(values)) - bottom) / (top - bottom), 0.0, 1.0)


def _decades(*series: NDArray[np.float64]) -> tuple[int, int]:
    found = np.concatenate([np.abs(s) for s in series])
    found = np.log10(found[np.isfinite(found) & (found > 0)])
    if not len(found):
        return 1, -4
    top = max(ceil(float(found.max())), floor(float(found.min())) + 2)
    return top, max(floor(float(found.min())), top - MOST_DECADES)
