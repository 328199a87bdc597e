"""Drift and margin over the tokens of one request: one sees the two meet at the flip."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from tui.drift_chart import DriftChart, drift_chart
from tui.numbers import small_text
from tui.palette import Palette
from tui.token_text import clipped
from tui.view_model import DriftView
from tui.widgets.lines import LinesPane, paragraph

AXIS = 5
"""Cells at the left of the chart for the powers of ten."""


class DriftPane(LinesPane):
    """A chart on a log10 axis; the flip and the cursor are marked below it."""

    _view: DriftView | None = None

    def show(self, view: DriftView) -> None:
        self._view = view
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        height = self.scrollable_content_region.height
        if self._view is not None and height:
            self.set_lines(drift_lines(self._view, self.room, height, self.palette))


def drift_lines(view: DriftView, room: int, height: int, palette: Palette) -> list[Text]:
    """The pane's lines: legend, chart, axis."""
    lines = [_legend(view, room, palette)]
    if view.note:
        lines += paragraph(view.note, room, palette.warn)
    if not len(view.drift):
        return lines
    rows = max(height - len(lines) - 1, 2)
    chart = drift_chart(view.drift, view.margin, columns=room - AXIS - 1, rows=rows)
    for row in range(rows):
        lines.append(_row(chart, row, rows, palette))
    lines.append(_axis(view, chart, palette))
    return lines


def _legend(view: DriftView, room: int, palette: Palette) -> Text:
    at = view.position if view.position < len(view.drift) else None
    drift = small_text(None if at is None else float(view.drift[at]))
    margin = small_text(None if at is None else float(view.margin[at]))
    words = f"█ drift {drift}  ◆ margin {margin}  at {view.position}"
    if len(words) > room:
        words = f"█ {drift}  ◆ {margin}  at {view.position}"
    return Text(clipped(words, room), style=palette.heading)


def _row(chart: DriftChart, row: int, rows: int, palette: Palette) -> Text:
    line = Text.assemble((_power(chart, row, rows).rjust(AXIS) + "│", palette.faint))
    bars = chart.bars[row] if row < len(chart.bars) else ""
    margins = chart.margin_row == row
    start = 0
    for column in [*np.flatnonzero(margins).tolist(), len(bars)]:
        line.append(bars[start:column], style=palette.baseline)
        if column < len(bars):
            line.append("◆", style=palette.bad if bars[column] != " " else palette.arm)
        start = column + 1
    return line


def _power(chart: DriftChart, row: int, rows: int) -> str:
    """A power of ten beside the row that it falls into."""
    span = chart.top - chart.bottom
    for power in range(chart.bottom, chart.top + 1):
        if int(np.clip((chart.top - power) / span * rows, 0, rows - 1)) == row:
            return f"1e{power}"
    return ""


def _axis(view: DriftView, chart: DriftChart, palette: Palette) -> Text:
    signs = ["─" if known else "┈" for known in chart.known]
    for column in np.flatnonzero(chart.zero).tolist():
        signs[column] = "0"
    line = Text.assemble((" " * AXIS + "└", palette.faint))
    flip = _column(chart, view.flip)
    cursor = _column(chart, view.position)
    start = 0
    for column in sorted({c for c in (flip, cursor) if c is not None} | {len(signs)}):
        line.append("".join(signs[start:column]), style=palette.faint)
        if column == flip:
            line.append("▲", style=palette.bad + palette.cursor if column == cursor else palette.bad)
        elif column < len(signs):
            line.append("┃" if signs[column] != "0" else "0", style=palette.cursor)
        start = column + 1
    if not view.note and flip is None and len(view.drift):
        line.append("  no flip", style=palette.faint)
    return line


def _column(chart: DriftChart, position: int | None) -> int | None:
    if position is None or not 0 <= position < len(chart.column_of):
        return None
    return int(chart.column_of[position])
