"""The report as JSON: every row of every table, values unrounded, not observed is null."""

from __future__ import annotations

import json
import math
from typing import Any

from stats.intervals import Interval
from stats.tables.table import Cell, Report, Table


def render_json(report: Report) -> str:
    """ASCII only, so that no text of a trace can act on a terminal that shows it."""
    tables = {table.name: table_object(table) for table in report.tables}
    whole = {
        "title": report.title,
        "command": report.command,
        "summary": list(report.summary),
        "tables": tables,
        "disclosure": table_object(report.disclosure) if report.disclosure is not None else None,
    }
    return json.dumps(whole, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def table_object(table: Table) -> dict[str, Any]:
    """A table as an object: columns with units, rows as objects by column key."""
    return {
        "title": table.title,
        "basis": table.basis,
        "notes": list(table.notes),
        "columns": [
            {"key": column.key, "title": column.title, "kind": column.kind, "unit": column.unit}
            for column in table.columns
        ],
        "rows": [
            {column.key: _value(cell) for cell, column in zip(row, table.columns, strict=True)}
            for row in table.rows
        ],
    }


def _value(cell: Cell) -> Any:
    if isinstance(cell, Interval):
        return {"low": cell.low, "high": cell.high, "method": cell.method, "level": cell.level}
    if isinstance(cell, float) and not math.isfinite(cell):
        # JSON has no infinity; a word keeps it apart from what was not observed.
        return None if math.isnan(cell) else ("infinity" if cell > 0 else "-infinity")
    return cell
