"""The requests of the episode: what the agent did, exposure and verdict of each arm, first flip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.coordinate import Coordinate
from textual.message import Message
from textual.widgets import DataTable

from tui.numbers import bar_text, count_text, small_text
from tui.palette import NOT_OBSERVED, VERDICT_SIGNS, Palette, palette_of
from tui.token_text import line_text
from tui.view_model import ArmCell, RequestRow, RequestsView

if TYPE_CHECKING:
    from textual import events

DID_CELLS = 34
BAR_CELLS = 4
Cells = tuple[Text, ...]


class RequestsPane(DataTable[Text], inherit_bindings=False):
    """A table of requests. Keys go to the screen; the mouse chooses a row."""

    class Chosen(Message):
        """A row was clicked."""

        def __init__(self, request: int) -> None:
            super().__init__()
            self.request = request

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(
            id=id, classes=classes, cursor_type="row", zebra_stripes=False, cell_padding=1, show_header=True
        )
        self._view: RequestsView | None = None
        self._numbers: list[int] = []
        self._headings: list[str] = []
        self._drawn: list[Cells] = []

    def show(self, view: RequestsView, request: int) -> None:
        """Show these rows with the cursor on a request (its own number)."""
        if view != self._view:
            self._view = view
            self._fill(view, palette_of(self.app))
        if request in self._numbers:
            row = self._numbers.index(request)
            if row != self.cursor_row:
                self.move_cursor(row=row, animate=False)

    def redraw(self) -> None:
        """After a change of theme: the same rows in other colours."""
        if self._view is not None:
            self._headings = []
            self._fill(self._view, palette_of(self.app))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        event.stop()  # our own moves cause it too, so it says nothing about the user

    async def _on_click(self, event: events.Click) -> None:
        row = event.style.meta.get("row", -1)
        if 0 <= row < len(self._numbers):
            self.post_message(self.Chosen(self._numbers[row]))
            event.stop()

    def _fill(self, view: RequestsView, palette: Palette) -> None:
        headings = headings_of(view)
        numbers = [row.index for row in view.rows]
        drawn = [cells_of(row, view, palette) for row in view.rows]
        if headings == self._headings and numbers == self._numbers:
            for place, (old, new) in enumerate(zip(self._drawn, drawn, strict=True)):
                for column, (was, now) in enumerate(zip(old, new, strict=True)):
                    if was != now or was.style != now.style:
                        self.update_cell_at(Coordinate(place, column), now, update_width=True)
        else:
            self.clear(columns=True)
            for heading in headings:
                self.add_column(Text(heading, style=palette.heading))
            self.add_rows(drawn)
        self._headings, self._numbers, self._drawn = headings, numbers, drawn


def headings_of(view: RequestsView) -> list[str]:
    """The table's headings; each arm has a column of its own at the right."""
    arms = [arm.label + (" (base)" if arm.baseline else "") for arm in view.arms]
    return ["#", "verdict", "at", "margin", "cached", "what the agent did", *arms]


def cells_of(row: RequestRow, view: RequestsView, palette: Palette) -> Cells:
    """One row as texts; nothing in it is ever read as markup."""
    style = palette.of(row.verdict)
    word = NOT_OBSERVED if row.verdict is None else f"{VERDICT_SIGNS[row.verdict]} {row.verdict}"
    chosen = {arm.index for arm in view.arms if arm.chosen} or {
        arm.index for arm in view.arms if arm.baseline
    }
    cell = next((cell for cell in row.cells if cell.arm in chosen), None)
    cached = cell.cached_tokens if cell is not None else None
    shade = palette.cached if cached else Style()
    return (
        Text(str(row.index), justify="right"),
        Text(word, style=style),
        Text(count_text(row.flip_position), justify="right"),
        Text(small_text(row.margin), justify="right"),
        Text(f"{count_text(cached)}/{count_text(row.prompt_tokens)}", justify="right", style=shade),
        Text(line_text(row.did, DID_CELLS)),
        *(_arm_cell(cell, palette) for cell in row.cells),
    )


def _arm_cell(cell: ArmCell, palette: Palette) -> Text:
    sign = " " if cell.verdict is None else VERDICT_SIGNS[cell.verdict]
    known = cell.cached_tokens is not None and cell.prompt_tokens
    fraction = cell.cached_tokens / cell.prompt_tokens if known else None  # type: ignore[operator]
    text = Text(f"{sign} ", style=palette.of(cell.verdict))
    return text.append(bar_text(fraction, BAR_CELLS), style=palette.cached)
