"""The rows of the table: what was measured, against what it could at best be, and how sure that is.

Only the standard library: these modules also run where nothing but an engine is installed, and in
processes whose own memory must stay small.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

LEVEL = 0.95
NOT_MEASURED = "–"


@dataclass(frozen=True)
class Figure:
    """A median with a distribution-free 95 % interval; without one when there are too few values."""

    value: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    unit: str = ""
    ours: Figure | None = None
    limit: str = ""
    """In words, what nothing can do better than, or what ours is held against."""
    at_limit: Figure | None = None
    """Measured in the same run, in turns with ours; in the same unit."""
    ratio: Figure | None = None
    """Ours ÷ limit, pair by pair: 1 is the limit."""
    target: str = ""
    missed: bool = False
    note: str = ""
    not_measured: str = ""
    """Why there is no number."""
    bench: str = ""


class NotMeasured(Exception):
    """Something that the benchmark needs is not here; the message says what, in words."""


def figure(values: Sequence[float]) -> Figure:
    """The median of values and the interval that the order statistics give it.

    The number of values below the median is binomial with p = ½, so the r-th smallest and the r-th
    largest enclose it with probability 1 − 2·P(fewer than r below). From 6 values on that can be 95 %.
    """
    ordered = sorted(values)
    n = len(ordered)
    rank, below = 0, 0.0
    while rank < n // 2 and (below := below + comb(n, rank) / 2**n) <= (1 - LEVEL) / 2:
        rank += 1
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (None, None)
    return Figure(median(ordered), low, high, n)


def against(
    what: str,
    unit: str,
    ours: Sequence[float],
    limit: str,
    at_limit: Sequence[float],
    *,
    scale: float = 1.0,
    target: str = "",
    at_most: float | None = None,
    ratio_at_most: float | None = None,
    note: str = "",
) -> Row:
    """A row from paired measurements; ``scale`` takes both into ``unit`` (1000 for seconds to ms).

    ``at_most`` (in ``unit``) and ``ratio_at_most`` are what ``target`` says in words.
    """
    shown = figure([value * scale for value in ours])
    ratio = figure([one / other for one, other in zip(ours, at_limit, strict=True)])
    return Row(
        what=what,
        unit=unit,
        ours=shown,
        limit=limit,
        at_limit=figure([value * scale for value in at_limit]),
        ratio=ratio,
        target=target,
        missed=(at_most is not None and shown.value > at_most)
        or (ratio_at_most is not None and ratio.value > ratio_at_most),
        note=note,
    )


def missing(what: str, why: str) -> Row:
    """A row that says in words why it has no number."""
    return Row(what, not_measured=why)


def render(rows: Iterable[Row]) -> str:
    """One table, as Markdown that is also aligned for a terminal; then the notes."""
    rows = list(rows)
    headings = ("what", "ours", "the limit", "measured", "ours ÷ limit", "pairs", "target")
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    lines = [_line(headings, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    lines += [_line(each, widths) for each in cells]
    notes = [f"* {row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _cells(row: Row) -> tuple[str, ...]:
    if row.ours is None:
        return row.what, NOT_MEASURED, f"not measured: {row.not_measured}", *(NOT_MEASURED,) * 3, row.target
    return (
        row.what,
        _figure(row.ours, row.unit),
        row.limit,
        _figure(row.at_limit, row.unit),
        _figure(row.ratio, ""),
        str(row.ours.n),
        f"{row.target}: {'missed' if row.missed else 'met'}" if row.target else "",
    )


def _figure(shown: Figure | None, unit: str) -> str:
    if shown is None:
        return NOT_MEASURED
    interval = (
        "" if shown.low is None or shown.high is None else f" [{_number(shown.low)}, {_number(shown.high)}]"
    )
    return f"{_number(shown.value)}{interval}{' ' + unit if unit else ''}"


def _number(value: float) -> str:
    """Three digits that say something; whole numbers from 1,000 on."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.replace("|", "\\|").ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"


def to_json(rows: Iterable[Row]) -> str:
    return json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)


def from_json(text: str, bench: str) -> list[Row]:
    """What a benchmark's own process wrote, marked with the benchmark's name."""
    return [replace(_row(fields), bench=bench) for fields in json.loads(text)]


def _row(fields: dict[str, Any]) -> Row:
    for name in ("ours", "at_limit", "ratio"):
        fields[name] = Figure(**fields[name]) if fields[name] is not None else None
    return Row(**fields)


def write(path: Path, rows: Iterable[Row]) -> None:
    path.write_text(to_json(rows) + "\n", encoding="utf-8")
