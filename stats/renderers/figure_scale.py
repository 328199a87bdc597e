"""From values to a place along an axis, and the marks that an axis carries."""

from __future__ import annotations

import math

from stats.figures.figure import Axis
from tracer.clean_text import number

TICKS = 5


def place(axis: Axis, low: float, high: float, value: float) -> float:
    """0 at the axis' low end, 1 at its high end; what lies outside is drawn at the end."""
    if axis.log:
        low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
    return min(1.0, max(0.0, (value - low) / (high - low)))


def ticks(axis: Axis, low: float, high: float) -> list[tuple[float, str]]:
    """(value, text) of the marks; powers of ten on a logarithmic axis."""
    if axis.names:
        return [(float(i), name) for i, name in enumerate(axis.names)]
    if axis.log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        step = max(1, (last - first) // 6)
        return [(10.0**e, number(10.0**e)) for e in range(first, last + 1, step)]
    width = _round_step((high - low) / TICKS)
    start = math.ceil(low / width - 1e-9)
    values = [i * width for i in range(start, math.floor(high / width + 1e-9) + 1)]
    return [(v, f"{100 * v:.0f} %" if axis.percent else number(round(v, 10))) for v in values]


def _round_step(rough: float) -> float:
    scale = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return scale * next(m for m in (1, 2, 5, 10) if m * scale >= rough * (1 - 1e-9))
