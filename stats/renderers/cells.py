"""How a cell reads, before a format escapes it. Numbers here, text elsewhere."""

from __future__ import annotations

import math

from stats.intervals import Interval
from stats.tables.table import Cell, Column
from tracer.clean_text import NOT_OBSERVED, number, percent


def cell_text(cell: Cell, column: Column) -> str:
    """The cell as plain text; strings come back as they are, so the caller must escape them."""
    if cell is None:
        return NOT_OBSERVED
    if isinstance(cell, Interval):
        return interval_text(cell, share=column.kind == "share_interval", digits=column.digits)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    if column.kind == "share":
        return percent(float(cell))
    if column.kind == "p":
        return p_text(float(cell))
    return number(cell, column.digits)


def interval_text(interval: Interval, *, share: bool, digits: int = 3) -> str:
    """``[26.6, 47.2] %`` or ``[0.056, 0.329]``."""
    if share:
        return f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}] %"
    return f"[{number(interval.low, digits)}, {number(interval.high, digits)}]"


def p_text(p: float) -> str:
    """A p-value with two digits; tiny ones with an exponent."""
    if math.isnan(p):
        return NOT_OBSERVED
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def heading(column: Column) -> str:
    """Title with unit, for instance ``margin (nat)``. The unit of counts is said once, by ``n``."""
    says_unit = column.unit is not None and (column.kind == "number" or column.title == "n")
    return f"{column.title} ({column.unit})" if says_unit else column.title


def is_numeric(column: Column) -> bool:
    """Whether the column is aligned to the right."""
    return column.kind in ("count", "number", "share", "p")
