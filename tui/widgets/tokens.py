"""Both arms' tokens, one above the other: the flip, what follows it, near ties, turns, tool calls."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui.palette import Palette
from tui.stream_layout import GUTTER, Line, LineKind, StreamLayout
from tui.token_text import clipped, line_text, without_controls
from tui.view_model import Mark, Stream
from tui.widgets.lines import LinesPane, finished

if TYPE_CHECKING:
    from textual import events

SIGNS: tuple[tuple[Mark, str], ...] = (
    (Mark.FLIP, "▲"),
    (Mark.FORCED, "f"),
    (Mark.EXACT_TIE, "="),
    (Mark.NEAR_TIE, "≈"),
    (Mark.UNOBSERVED, "?"),
    (Mark.AFTER, "┈"),
)
"""The sign under a token, the most important first."""


_CURSOR_ON_FLIP = Style(underline=True)
"""The flip is in reverse already."""


class TokensPane(LinesPane):
    """The token streams of baseline and arm, aligned by position."""

    class Chosen(Message):
        """A token was clicked."""

        def __init__(self, request: int, position: int) -> None:
            super().__init__()
            self.request = request
            """The request's own number."""
            self.position = position

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._stream: Stream | None = None
        self._layout_of: StreamLayout | None = None
        self._ids = False
        self._numbers: list[int] = []
        self._at = (0, 0)
        self._colours: Palette | None = None

    def show(self, stream: Stream, request: int, position: int, *, ids: bool) -> None:
        """Show this stream with the cursor on a position of a request (its own number)."""
        if stream is not self._stream or ids != self._ids:
            self._stream, self._ids = stream, ids
            self._numbers = [r.index for r in stream.requests]
            self._lay_out()
        place = self._place(request)
        self._at = (place, position)
        self._scroll_to_cursor()
        self.refresh()

    def neighbour(self, lines: int) -> tuple[int, int] | None:
        """Request number and position that stand this many bands below the cursor."""
        layout = self._ready()
        if layout is None or not layout.blocks:
            return None
        place, position = layout.vertical(*self._at, lines)
        return self._numbers[place], position

    @property
    def bands_visible(self) -> int:
        """How many bands fit the pane: what a page is."""
        layout = self._layout_of
        per_band = layout.lines_per_band if layout is not None else 3
        return max(self.scrollable_content_region.height // per_band, 1)

    def notify_style_update(self) -> None:
        self._colours = None
        super().notify_style_update()

    def on_resize(self) -> None:
        self._lay_out()
        self._scroll_to_cursor()

    def on_click(self, event: events.Click) -> None:
        layout = self._layout_of
        offset = event.get_content_offset(self)
        if layout is None or offset is None:
            return
        line = layout.line(offset.y + self.scroll_offset.y)
        if line is None:
            return
        position = layout.position_at(line, offset.x + self.scroll_offset.x - GUTTER)
        if position is None and line.kind in (LineKind.HEADING, LineKind.NEXT):
            position = 0
        if position is not None:
            self.post_message(self.Chosen(self._numbers[line.request], position))

    def _place(self, request: int) -> int:
        return max(bisect_right(self._numbers, request) - 1, 0)

    def _lay_out(self) -> None:
        """Only where there is a size: a hidden pane is laid out when it is shown."""
        if self._stream is None or not self.size.width:
            self._layout_of = None
            return
        self._layout_of = StreamLayout(self._stream, self.room, ids=self._ids)
        self.virtual_size = Size(self.room, self._layout_of.height)

    def _ready(self) -> StreamLayout | None:
        if self._layout_of is None and self._stream is not None:
            self._layout_of = StreamLayout(self._stream, self.room, ids=self._ids)
        return self._layout_of

    def _scroll_to_cursor(self) -> None:
        layout = self._layout_of
        if layout is None or not layout.blocks:
            return
        y = layout.line_of(*self._at)
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= y - 1 or y + layout.lines_per_band > top + height:
            heading = layout.tops[self._at[0]]
            first = heading if y - heading < height // 2 else y - height // 3
            self.scroll_to(y=max(first, 0), animate=False, force=True, immediate=True)

    def render_line(self, y: int) -> Strip:
        scroll_x, scroll_y = self.scroll_offset
        width = self.scrollable_content_region.width
        line = self._layout_of.line(y + scroll_y) if self._layout_of is not None else None
        if line is None:
            return Strip.blank(width, self.rich_style)
        if self._colours is None:
            self._colours = self.palette
        return finished(Strip(self._segments(line, self._colours)), scroll_x, width, self.rich_style)

    def _segments(self, line: Line, palette: Palette) -> list[Segment]:
        stream, layout = self._stream, self._layout_of
        assert stream is not None
        assert layout is not None
        if line.kind is LineKind.HEADING:
            return self._heading(line, palette)
        if line.kind is LineKind.NEXT:
            which, text = layout.blocks[line.request].next_lines[line.row]
            label = {"both": "", "a": stream.label_a, "b": stream.label_b or ""}[which]
            style = {"both": palette.plain, "a": palette.baseline, "b": palette.arm}[which]
            text = line_text(f"  {label}{' ' if label else ''}{text}", self.room)
            return [Segment(text, style)]
        if line.kind is LineKind.SIGNS:
            return self._signs(line, palette)
        if line.kind is LineKind.EMPTY:
            return []
        return self._tokens(line, palette)

    def _heading(self, line: Line, palette: Palette) -> list[Segment]:
        assert self._stream is not None
        request = self._stream.requests[line.request]
        text = line_text(request.heading, self.room - 4)
        rule = "─" * max(self.room - cell_len(text) - 4, 0)
        here = line.request == self._at[0]
        return [
            Segment("▶ " if here else "─ ", palette.heading),
            Segment(text, palette.heading),
            Segment(f" {rule}", palette.faint),
        ]

    def _tokens(self, line: Line, palette: Palette) -> list[Segment]:
        assert self._stream is not None
        assert self._layout_of is not None
        request = self._stream.requests[line.request]
        first = line.kind is LineKind.BASELINE
        ids = request.a_ids if first else request.b_ids
        other = request.b_ids if first else request.a_ids
        marks = self._stream.marks(line.request)
        cells = self._layout_of.blocks[line.request].cells
        label = f"{line.start:>{GUTTER - 1}} " if first else " " * GUTTER
        found = [Segment(label, palette.faint)]
        for position in range(line.start, line.end):
            width = int(cells[position])
            if ids is None or position >= len(ids):
                text = "⊣" if ids is not None and position == len(ids) else ""
                style = palette.faint
            else:
                text = self._token(int(ids[position]), width)
                same = other is not None and position < len(other) and other[position] == ids[position]
                style = _style(Mark(int(marks[position])), palette, first=first, same=same)
            drawn = set_cell_size(text, width)
            if (line.request, position) == self._at:
                style += palette.cursor if not style.reverse else _CURSOR_ON_FLIP
            found.append(Segment(without_controls(drawn), style))
        return found

    def _token(self, token_id: int, width: int) -> str:
        if self._ids:
            return clipped(f"{token_id} ", width)
        assert self._stream is not None
        return clipped(self._stream.text(token_id), width)

    def _signs(self, line: Line, palette: Palette) -> list[Segment]:
        assert self._stream is not None
        assert self._layout_of is not None
        marks = self._stream.marks(line.request)
        cells = self._layout_of.blocks[line.request].cells
        found = [Segment(" " * GUTTER)]
        for position in range(line.start, line.end):
            mark = Mark(int(marks[position]))
            sign = next((sign for kind, sign in SIGNS if kind in mark), "")
            style = (
                palette.bad if Mark.FLIP in mark else palette.faint if Mark.AFTER in mark else palette.warn
            )
            filler = "┈" if Mark.AFTER in mark else " "
            found.append(Segment(sign.ljust(int(cells[position]), filler)[: int(cells[position])], style))
        return found


def _style(mark: Mark, palette: Palette, *, first: bool, same: bool) -> Style:
    if Mark.FLIP in mark:
        return palette.flip
    style = palette.plain
    if Mark.AFTER in mark:
        style = palette.after
    elif not first and same:
        style = palette.faint
    if Mark.EXACT_TIE in mark:
        style += palette.exact_tie
    elif Mark.NEAR_TIE in mark:
        style += palette.near_tie
    if Mark.FORCED in mark:
        style += palette.forced
    if Mark.UNOBSERVED in mark and Mark.AFTER not in mark:
        style += palette.unobserved
    return style
