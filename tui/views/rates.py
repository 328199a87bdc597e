"""The rates of one trace for the arms pane: the report's own table, as text."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tracer.errors import CachetraceError

_SHOWN = ("pair", "episodes", "differ", "rate", "interval", "baseline_against_itself", "arm_against_itself")


class Rates(Struct, frozen=True):
    """First row = headings. Cells and notes are text as ``report`` gives it."""

    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def rates_of(path: Path, near_tie: float) -> Rates:
    """Read the trace as ``report`` does. Opens the file anew, so it may run on another thread."""
    from stats.renderers.cells import cell_text, heading
    from stats.report.build import build_report
    from stats.report.collect import CollectOptions, collect

    try:
        built = build_report(collect([path], CollectOptions(near_tie=near_tie)))
    except CachetraceError as error:
        return Rates((), (str(error),))
    table = next((table for table in built.report.tables if table.name == "rates"), None)
    if table is None or not table.rows:
        return Rates((), ("no rate: no pair of arms that may both count, each with its own control",))
    places = [place for place, column in enumerate(table.columns) if column.key in _SHOWN]
    rows = [tuple(heading(table.columns[place]) for place in places)]
    rows += [tuple(cell_text(row[place], table.columns[place]) for place in places) for row in table.rows]
    return Rates(tuple(rows), table.notes)
