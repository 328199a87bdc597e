"""The report as CSV: all tables in one long file, a number is a number, an interval is two columns."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from stats.intervals import Interval
from stats.tables.table import Cell, Column, Report, Table
from tracer.clean_text import csv_cell

if TYPE_CHECKING:
    from _csv import Writer


def render_csv(report: Report) -> str:
    """Each table after the other: a line with its name, the head, the rows, an empty line."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    tables = [*report.tables, *([report.disclosure] if report.disclosure is not None else [])]
    for place, table in enumerate(tables):
        if place:
            writer.writerow([])
        writer.writerow(["table", csv_cell(table.name), csv_cell(table.basis)])
        _write(writer, table)
    return written.getvalue()


def _write(writer: Writer, table: Table) -> None:
    writer.writerow([name for column in table.columns for name in _names(column)])
    for row in table.rows:
        writer.writerow(
            [v for cell, column in zip(row, table.columns, strict=True) for v in _values(cell, column)]
        )


def _names(column: Column) -> list[str]:
    if column.kind in ("interval", "share_interval"):
        return [f"{column.key}_low", f"{column.key}_high"]
    return [column.key]


def _values(cell: Cell, column: Column) -> list[str | float]:
    if column.kind in ("interval", "share_interval"):
        return [cell.low, cell.high] if isinstance(cell, Interval) else ["", ""]
    if isinstance(cell, Interval):
        return [f"{cell.low} to {cell.high}"]
    if isinstance(cell, bool):
        return [str(cell).lower()]
    return [csv_cell(cell)]
