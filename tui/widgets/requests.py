"""The requests of the episode: verdict, first flip, exposure and verdict of each arm, what the agent did.

Drawn through the line API: a DataTable of the same rows cost a third of the first paint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tracer.clean_text import cells
from tui.numbers import bar_text, count_text, level_text, small_text
from tui.palette import NOT_OBSERVED, VERDICT_SIGNS, Palette
from tui.token_text import clipped, line_text, without_controls
from tui.view_model import ArmCell, ArmName, RequestRow, RequestsView
from tui.widgets.lines import LinesPane, finished

if TYPE_CHECKING:
    from textual import events

BAR_CELLS = 4
LEAST_DID_CELLS = 8
MOST_DID_CELLS = 40


class Columns(Struct, frozen=True):
    """Widths in cells at one size of the pane; 0 = the column is left out."""

    number: int
    verdict: int
    at: int
    margin: int
    cached: int
    drift: int
    did: int
    arms: tuple[ArmName, ...]
    labelled: bool
    """Arms have their label and a bar; else their number, a sign and one cell of exposure."""

    def arm_cells(self, arm: ArmName) -> int:
        return max(cells(arm.label), 2 + BAR_CELLS) if self.labelled else 2


class RequestsPane(LinesPane):
    """A table of requests under a heading that stays. Keys go to the screen; a click chooses a row."""

    class Chosen(Message):
        """A row was clicked."""

        def __init__(self, request: int) -> None:
            super().__init__()
            self.request = request

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._view: RequestsView | None = None
        self._columns: Columns | None = None
        self._request = 0
        self._colours: Palette | None = None

    def show(self, view: RequestsView, request: int) -> None:
        """Show these rows with the cursor on a request (its own number)."""
        if view is not self._view:
            self._view = view
            self._arrange()
        self._request = request
        self._scroll_to_row()
        self.refresh()

    def notify_style_update(self) -> None:
        self._colours = None
        super().notify_style_update()

    def on_resize(self) -> None:
        self._arrange()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self._view is None or offset.y == 0:
            return
        row = offset.y - 1 + self.scroll_offset.y
        if row < len(self._view.rows):
            self.post_message(self.Chosen(self._view.rows[row].index))

    def _arrange(self) -> None:
        if self._view is None or not self.size.width:
            self._columns = None
            return
        self._columns = columns_for(self._view, self.room)
        size = Size(self.room, len(self._view.rows) + 1)
        if size != self.virtual_size:
            self.virtual_size = size

    def _scroll_to_row(self) -> None:
        if self._view is None:
            return
        row = next((i for i, row in enumerate(self._view.rows) if row.index == self._request), None)
        shown = self.scrollable_content_region.height - 1
        top = self.scroll_offset.y
        if row is not None and shown > 0 and not top <= row < top + shown:
            self.scroll_to(y=row if row < top else row - shown + 1, animate=False, force=True, immediate=True)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        view, columns = self._view, self._columns
        row = y - 1 + self.scroll_offset.y
        if view is None or columns is None or row >= len(view.rows):
            return Strip.blank(width, self.rich_style)
        if self._colours is None:
            self._colours = self.palette
        if y == 0:
            return finished(Strip(heading_segments(columns, self._colours)), 0, width, self.rich_style)
        one = view.rows[row]
        segments = row_segments(one, columns, self._colours)
        if one.index != self._request:
            return finished(Strip(segments), 0, width, self.rich_style)
        chosen = self._colours.row
        marked = [Segment("▶", chosen)]
        marked += [Segment(s.text, (s.style or Style()) + chosen) for s in segments[1:]]
        return finished(Strip(marked).adjust_cell_length(width, chosen), 0, width, self.rich_style)


def columns_for(view: RequestsView, room: int) -> Columns:
    """What fits: the flip first, then every arm in short, exposure, drift, what the agent did.

    Arms get their names and bars where all of that leaves room for them.
    """
    rows = view.rows
    number = len(str(max((row.index for row in rows), default=0)))
    verdict = max((cells(_word(row)) for row in rows), default=7)
    at = max((2, *(len(count_text(row.flip_position)) for row in rows)))
    margin = max((6, *(len(small_text(row.margin)) for row in rows)))
    left = room - (number + verdict + at + margin + 5)
    short = tuple(arm for arm in view.arms if not arm.control)
    while short and 3 * len(short) > left:
        short = short[:-1]
    left -= 3 * len(short)
    cached, left = _taken(max((6, *(len(cached_text(row)) for row in rows))), left)
    drift, left = _taken(max((5, *(len(drift_cell(row)) for row in rows))), left)
    columns = Columns(number, verdict, at, margin, cached, drift, 0, short, labelled=False)
    long = replace(columns, arms=view.arms, labelled=True)
    spare = left + 3 * len(short) - sum(long.arm_cells(arm) + 1 for arm in view.arms)
    if drift and spare >= 2 * LEAST_DID_CELLS:
        return replace(long, did=min(spare, MOST_DID_CELLS))
    return replace(columns, did=min(left, MOST_DID_CELLS) if left >= LEAST_DID_CELLS else 0)


def _taken(wanted: int, left: int) -> tuple[int, int]:
    """(width of a column, room left after it); 0 when it does not fit."""
    return (wanted, left - wanted - 1) if left > wanted else (0, left)


def drift_cell(row: RequestRow) -> str:
    """The largest drift, marked where only the chosen token's was read."""
    return ("≥" if row.drift_at_least else "") + small_text(row.drift)


def heading_segments(columns: Columns, palette: Palette) -> list[Segment]:
    """The heading line."""
    words = [
        "#".rjust(columns.number + 1),
        "verdict".ljust(columns.verdict),
        "at".rjust(columns.at),
        "margin".rjust(columns.margin),
    ]
    found = [Segment(" ".join(words) + " ", palette.heading)]
    for arm in columns.arms:
        style = palette.baseline if arm.baseline else palette.arm if arm.chosen else palette.faint
        name = clipped(arm.label, columns.arm_cells(arm)) if columns.labelled else f"{arm.index:>2}"[-2:]
        found.append(Segment(name.ljust(columns.arm_cells(arm)) + " ", style + Style(bold=True)))
    if columns.cached:
        found.append(Segment("cached".rjust(columns.cached) + " ", palette.heading))
    if columns.drift:
        found.append(Segment("drift".rjust(columns.drift) + " ", palette.heading))
    if columns.did:
        found.append(Segment(clipped("what the agent did", columns.did), palette.heading))
    return found


def row_segments(row: RequestRow, columns: Columns, palette: Palette) -> list[Segment]:
    """One row; nothing in it is ever read as markup."""
    word = _word(row)
    found = [
        Segment(" ", palette.plain),
        Segment(f"{row.index:>{columns.number}} ", palette.plain),
        Segment(word + " " * (columns.verdict - cells(word) + 1), palette.of(row.verdict)),
        Segment(count_text(row.flip_position).rjust(columns.at) + " ", palette.plain),
        Segment(small_text(row.margin).rjust(columns.margin) + " ", palette.plain),
    ]
    by_arm = {cell.arm: cell for cell in row.cells}
    for arm in columns.arms:
        cell = by_arm.get(arm.index)
        found += _arm_segments(cell, columns.arm_cells(arm), palette, labelled=columns.labelled)
    if columns.cached:
        shade = palette.cached if row.cached_tokens else palette.plain
        found.append(Segment(cached_text(row).rjust(columns.cached) + " ", shade))
    if columns.drift:
        found.append(Segment(drift_cell(row).rjust(columns.drift) + " ", palette.plain))
    if columns.did:
        found.append(Segment(without_controls(line_text(row.did, columns.did)), palette.plain))
    return found


def cached_text(row: RequestRow) -> str:
    """Exposure of the chosen arm as cached/prompt."""
    return f"{count_text(row.cached_tokens)}/{count_text(row.prompt_tokens)}"


def _word(row: RequestRow) -> str:
    return NOT_OBSERVED if row.verdict is None else f"{VERDICT_SIGNS[row.verdict]} {row.verdict}"


def _arm_segments(cell: ArmCell | None, width: int, palette: Palette, *, labelled: bool) -> list[Segment]:
    if cell is None:
        return [Segment(" " * (width + 1))]
    sign = " " if cell.verdict is None else VERDICT_SIGNS[cell.verdict]
    style = palette.of(cell.verdict)
    if not labelled:
        return [Segment(sign, style), Segment(level_text(cell.fraction) + " ", palette.cached)]
    bar = bar_text(cell.fraction, BAR_CELLS)
    return [Segment(f"{sign} ", style), Segment(bar.ljust(width - 1), palette.cached)]
