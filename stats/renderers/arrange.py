"""Makes a wide table narrow before it is shown: what all rows share is said once above them.

CSV and JSON never go through here: they hold every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stats.renderers.cells import cell_text
from stats.tables.table import Column, Table
from tracer.clean_text import NOT_OBSERVED

WORTH_SAYING_ONCE = 12
"""Shorter beginnings are cheaper to repeat than to explain."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """A table as it is shown. All text is still as it came: the renderer escapes it."""

    columns: tuple[Column, ...]
    rows: list[list[str]]
    sentences: list[list[str]]
    """For each row its sentences, which stand below it."""
    shared: str
    """What all rows have in common; "" when nothing."""
    left_out: int
    """Rows that only CSV and JSON show."""


def arrange(table: Table) -> Arranged:
    """Leave out columns that say nothing, lift out what all rows share, set sentences apart."""
    shown = table.rows if table.shown_rows is None else table.rows[: table.shown_rows]
    body = [[cell_text(c, column) for c, column in zip(row, table.columns, strict=True)] for row in shown]
    common, kept, below = _sorted_columns(table, body)
    prefixes = {i: prefix for i in kept if (prefix := _shared_prefix(table.columns[i], [r[i] for r in body]))}
    said = [f"{table.columns[i].title}: {body[0][i]}" for i in common]
    said += [f"{table.columns[i].title} begins with: {prefix.strip()}" for i, prefix in prefixes.items()]
    return Arranged(
        columns=tuple(table.columns[i] for i in kept),
        rows=[[row[i][len(prefixes.get(i, "")) :] for i in kept] for row in body],
        sentences=[[row[i] for i in below if row[i] != NOT_OBSERVED] for row in body],
        shared=f"All rows: {'; '.join(said)}" if said else "",
        left_out=len(table.rows) - len(shown),
    )


def _sorted_columns(table: Table, body: Sequence[Sequence[str]]) -> tuple[list[int], list[int], list[int]]:
    """(columns said once above, columns of the table, columns below each row)."""
    common, kept, below = [], [], []
    for i, column in enumerate(table.columns):
        values = {row[i] for row in body}
        if column.kind == "sentence":
            below.append(i)
        elif values == {NOT_OBSERVED} or (column.quiet and values <= {"0", NOT_OBSERVED} and body):
            continue  # a column that says nothing only takes room
        elif column.common and len(values) == 1:
            common.append(i)
        else:
            kept.append(i)
    return common, kept, below


def _shared_prefix(column: Column, cells: Sequence[str]) -> str:
    """What all cells of a ``common`` column begin with, up to a whole part of a name; "" when little."""
    if not column.common or not cells:
        return ""
    # In sorted order the first and the last differ the most.
    first, last = min(cells), max(cells)
    apart = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    marks = (" · ", ", ", ": ")
    cut = max((first[:apart].rfind(mark) + len(mark) for mark in marks if mark in first[:apart]), default=0)
    return first[:cut] if cut >= WORTH_SAYING_ONCE else ""
