"""The two top-k lists of the token under the cursor, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from rich.text import Text

from tui.numbers import small_text, twin_bar_text, value_text
from tui.palette import Palette
from tui.token_text import clipped
from tui.view_model import TopKRow, TopKView
from tui.widgets.lines import LinesPane, aligned, named_lines, paragraph


class TopKPane(LinesPane):
    """Token, value in each arm, change, bar; then margins, drift, ranks, bit identity."""

    _view: TopKView | None = None

    def show(self, view: TopKView) -> None:
        self._view = view
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._view is not None and self.size.width:
            self.set_lines(top_k_lines(self._view, self.room, self.palette))


def top_k_lines(view: TopKView, room: int, palette: Palette) -> list[Text]:
    """The pane's lines at this width."""
    where = f"request {view.request} token {view.position}"
    if view.scale:
        where += f"  ({view.scale})"
    lines = [Text(where, style=palette.heading)]
    if view.sentence:
        lines += paragraph(view.sentence, room, palette.strong)
    if view.note:
        lines += paragraph(view.note, room, palette.warn)
    if view.rows:
        lines += _table(view, room, palette)
    lines += named_lines(view.facts, room, palette)
    return lines


def _table(view: TopKView, room: int, palette: Palette) -> list[Text]:
    both = view.label_b is not None
    numbers = 9 if room < 52 else 12
    columns = 3 if both else 1
    bar = min(max(room - 14 - columns * numbers - 2, 0), 24)
    token = max(room - columns * numbers - (bar + 2 if bar >= 4 else 0) - 2, 6)
    heading = Text.assemble(("  " + aligned("token", token), palette.faint))
    heading.append(_label("▀" if both else "", view.label_a, numbers), style=palette.baseline)
    if both:
        heading.append(_label("▄", view.label_b or "", numbers), style=palette.arm)
        heading.append("change".rjust(numbers), style=palette.faint)
    lines = [heading]
    low, high = _scale(view.rows)
    lines += [_row(row, token, numbers, bar, low, high, palette, both=both) for row in view.rows]
    return lines


def _label(sign: str, label: str, width: int) -> str:
    return clipped(f"{sign}{label}", width - 1).rjust(width)


def _row(
    row: TopKRow, token: int, numbers: int, bar: int, low: float, high: float, palette: Palette, *, both: bool
) -> Text:
    sign = {(True, True): "●", (True, False): "▀", (False, True): "▄"}.get((row.chosen_a, row.chosen_b), " ")
    chosen = row.chosen_a or row.chosen_b
    line = Text.assemble((f"{sign} ", palette.strong))
    line.append(
        aligned(clipped(row.text, token - 1), token), style=palette.strong if chosen else palette.plain
    )
    line.append(value_text(row.a).rjust(numbers), style=palette.baseline)
    if both:
        line.append(value_text(row.b).rjust(numbers), style=palette.arm)
        change = small_text(row.change)
        line.append(
            (f"+{change}" if row.change and row.change > 0 else change).rjust(numbers), style=palette.faint
        )
    if bar >= 4:
        line.append(
            "  " + twin_bar_text(_part(row.a, low, high), _part(row.b, low, high), bar), style=palette.cached
        )
    return line


def _scale(rows: Sequence[TopKRow]) -> tuple[float, float]:
    values = [v for row in rows for v in (row.a, row.b) if v is not None and isfinite(v)]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _part(value: float | None, low: float, high: float) -> float | None:
    """Where a value stands between the lowest and the highest; the lowest keeps a visible rest."""
    if value is None or not isfinite(value):
        return None
    return 0.05 + 0.95 * (value - low) / (high - low) if high > low else 1.0
