"""One figure as a plain record: axes and lines of points, whatever draws them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Style = Literal["points", "line", "step"]


class Axis(Struct, frozen=True, kw_only=True):
    """One axis. ``names`` puts words at whole numbers instead of a scale."""

    title: str
    log: bool = False
    percent: bool = False
    names: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None


class Line(Struct, frozen=True, kw_only=True):
    """Points in order. ``low`` and ``high`` are limits of y, None where there is no interval."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    style: Style = "line"
    group: str | None = None
    """Lines of one group share colour, dash and marker."""
    thin: bool = False
    """Tells the second line of a group from its first."""


class Figure(Struct, frozen=True, kw_only=True):
    """A figure with its basis, which stands below it."""

    name: str
    title: str
    caption: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]


def group_index(figure: Figure) -> list[int]:
    """For each line the number of its group, from 0; a line without a group is one by itself."""
    groups: dict[str, int] = {}
    return [groups.setdefault(line.group or f"\0{i}", len(groups)) for i, line in enumerate(figure.lines)]


def limits(figure: Figure) -> tuple[float, float, float, float]:
    """(lowest x, highest x, lowest y, highest y) that a drawing must show."""
    xs = [x for line in figure.lines for x in line.x]
    ys = [y for line in figure.lines for y in (*line.y, *line.low, *line.high) if y is not None]
    return (*_padded(figure.x, xs), *_padded(figure.y, ys))


def _padded(axis: Axis, values: list[float]) -> tuple[float, float]:
    if axis.names:
        return -0.5, len(axis.names) - 0.5
    seen = [v for v in values if not axis.log or v > 0]
    low = axis.low if axis.low is not None else min(seen, default=1.0 if axis.log else 0.0)
    high = axis.high if axis.high is not None else max(seen, default=10.0 if axis.log else 1.0)
    if high <= low:
        return (low / 2, low * 2) if axis.log else (low - 0.5, low + 0.5)
    return low, high
