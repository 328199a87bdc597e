"""Figures of rates: cache layers (the paper's Figure 1) and the gradient over weight formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stats.figures.figure import Axis, Figure, Line
from stats.intervals import Interval
from stats.report.formats import FormatFamily
from stats.tables.rates import episode_rate_interval
from stats.tables.table import Cell, Table

PERCENT = Axis(title="episodes that differ", percent=True, low=0.0, high=1.0)


def layers_figure(table: Table | None) -> Figure | None:
    """The rows of the layers table as points with intervals; one line a configuration."""
    if table is None:
        return None
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    names = tuple(dict.fromkeys(str(row["comparison"]) for row in rows))
    lines = []
    for configuration in dict.fromkeys(str(row["configuration"]) for row in rows):
        own = [row for row in rows if row["configuration"] == configuration]
        lines.append(
            Line(
                label=configuration,
                x=tuple(float(names.index(str(row["comparison"]))) for row in own),
                y=tuple(_number(row["rate"]) for row in own),
                low=tuple(_end(row["interval"], low=True) for row in own),
                high=tuple(_end(row["interval"], low=False) for row in own),
                style="points",
            )
        )
    return Figure(
        name="layers",
        title="Which cache layer does it",
        caption=f"Share of episodes that differ, with 95 % intervals. {table.basis}",
        x=Axis(title="comparison", names=names),
        y=PERCENT,
        lines=tuple(lines),
    )


def gradient_figure(families: Sequence[FormatFamily]) -> Figure | None:
    """Rate against weight format; one line a model and pair of arms."""
    lines = list(_gradients(families))
    if not lines:
        return None
    longest = max(families, key=lambda family: len(family.formats))
    return Figure(
        name="gradient",
        title="Divergence over weight formats",
        caption="Episodes that count in every format, with 95 % intervals; finest format at the left.",
        x=Axis(title="weights", names=longest.formats),
        y=PERCENT,
        lines=tuple(lines),
    )


def _gradients(families: Sequence[FormatFamily]) -> Iterator[Line]:
    longest = max((family.formats for family in families), key=len, default=())
    for family in families:
        episodes, matrix = family.joined()
        if not episodes or any(name not in longest for name in family.formats):
            continue
        columns = [[row[i] for row in matrix] for i in range(len(family.formats))]
        intervals = [episode_rate_interval(column, family.carry) for column in columns]
        yield Line(
            label=family.label,
            x=tuple(float(longest.index(name)) for name in family.formats),
            y=tuple(sum(column) / len(column) for column in columns),
            low=tuple(i.low if i else None for i in intervals),
            high=tuple(i.high if i else None for i in intervals),
        )


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _end(cell: Cell, *, low: bool) -> float | None:
    if not isinstance(cell, Interval):
        return None
    return cell.low if low else cell.high
