"""One table as a plain record: columns with units, rows of observed values, notes in sentences.

A cell is None when nothing was observed; renderers show it as "–", never as 0.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stats.intervals import Interval

Cell = str | int | float | bool | Interval | None

Kind = Literal["text", "sentence", "count", "number", "share", "share_interval", "interval", "p", "flag"]
"""How a column is written: ``share`` and ``share_interval`` are fractions of 1 shown in per cent; a
``sentence`` stands below its row on a terminal."""


class Column(Struct, frozen=True, kw_only=True):
    """One column. ``key`` names it in JSON and CSV, ``title`` everywhere else."""

    key: str
    title: str
    kind: Kind = "text"
    unit: str | None = None
    digits: int = 3
    """Significant digits of a ``number``, decimals of a ``share``'s per cent are always one."""
    common: bool = False
    """On a terminal, said once above the table when all rows agree."""
    quiet: bool = False
    """On a terminal, left out when every row says 0 or nothing."""


class Table(Struct, frozen=True, kw_only=True):
    """A table with its basis: what was counted, over how many, under which arrangement."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    basis: str
    """Carried over, emptied or sentinel; passes or repeats; what n counts."""
    notes: tuple[str, ...] = ()
    shown_rows: int | None = None
    """How many rows a screen or page shows; CSV and JSON always hold all of them."""


class Report(Struct, frozen=True, kw_only=True):
    """Everything that a renderer writes."""

    title: str
    command: str | None
    summary: tuple[str, ...]
    """The findings, one sentence each."""
    tables: tuple[Table, ...]
    disclosure: Table | None = None
