"""Per request and arm: which stretches of the prompt came from a cache, and where the prefix broke."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import overload

from rich.text import Text
from textual.message import Message

from replay.divergence import Stretch
from tui.numbers import count_text
from tui.palette import Palette
from tui.token_text import line_text
from tui.view_model import CacheRow, CacheView
from tui.widgets.lines import LinesPane, aligned

STRETCH_SIGNS: dict[Stretch, str] = {
    Stretch.CACHED: "█",
    Stretch.PROMPT_CACHE: "▓",
    Stretch.RESTORED: "▚",
    Stretch.COMPUTED: "░",
    Stretch.UNKNOWN: "?",
}
HEAD_CELLS = 17
COUNT_CELLS = 12
_LEGEND_ROWS = 200
"""The legend names the kinds that occur in so many rows."""


class CacheRows(Sequence[Text]):
    """The lines, made when they are drawn: a long run has thousands."""

    def __init__(self, view: CacheView, room: int, palette: Palette) -> None:
        self._view, self._room, self._palette = view, room, palette
        self._labels = {arm.index: arm for arm in view.arms}

    def __len__(self) -> int:
        return len(self._view.rows) + 1

    @overload
    def __getitem__(self, place: int) -> Text: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Text]: ...
    def __getitem__(self, place: int | slice) -> Text | Sequence[Text]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if place == 0:
            kinds = {stretch.kind for row in self._view.rows[:_LEGEND_ROWS] for stretch in row.stretches}
            signs = "  ".join(f"{sign} {kind}" for kind, sign in STRETCH_SIGNS.items() if kind in kinds)
            return Text(line_text(f"{signs}  ╎ prefix broke", self._room), style=self._palette.faint)
        return self._row(self._view.rows[place - 1])

    def _row(self, row: CacheRow) -> Text:
        palette, view = self._palette, self._view
        arm = self._labels[row.arm]
        here = row.request == view.request
        style = palette.baseline if arm.baseline else palette.arm if arm.chosen else palette.faint
        head = f"{'▶' if here else ' '}{row.request:>4} {arm.label}"
        line = Text.assemble((aligned(line_text(head, HEAD_CELLS - 1), HEAD_CELLS), style))
        room = max(self._room - HEAD_CELLS - COUNT_CELLS, 8)
        bar = _bar(row, max(view.longest, 1), room, palette)
        line.append_text(bar)
        counts = f"{count_text(row.cached_tokens)}/{count_text(row.prompt_tokens)}"
        line.append(counts.rjust(COUNT_CELLS - 1), style=palette.faint)
        if row.verdict is not None and row.verdict not in ("as expected", "unknown"):
            line.append(f" {row.verdict}, expected {count_text(row.expected_tokens)}", style=palette.warn)
        if row.broke_at is not None and here:
            line.append(f" ╎ broke at {row.broke_at} {line_text(row.broke_text, 20)}", style=palette.warn)
        return line


class CachePane(LinesPane):
    """The cache timeline."""

    class Chosen(Message):
        """A row was clicked."""

        def __init__(self, request: int, arm: int) -> None:
            super().__init__()
            self.request = request
            self.arm = arm

    _view: CacheView | None = None

    def show(self, view: CacheView) -> None:
        self._view = view
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_click(self, event: object) -> None:
        offset = getattr(event, "get_content_offset", lambda _: None)(self)
        if offset is None or self._view is None:
            return
        place = offset.y + self.scroll_offset.y - 1
        if 0 <= place < len(self._view.rows):
            row = self._view.rows[place]
            self.post_message(self.Chosen(row.request, row.arm))

    def _draw(self) -> None:
        view = self._view
        if view is None or not self.size.width:
            return
        rows = CacheRows(view, self.room, self.palette)
        first = bisect_left(view.rows, view.request, key=lambda row: row.request)
        self.set_lines(rows, keep_scroll=True, widest=self.room)
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        count = sum(1 for row in view.rows[first : first + 32] if row.request == view.request)
        if first + 1 < top or first + 1 + count > top + height:
            self.scroll_to(y=first, animate=False, force=True, immediate=True)


def _bar(row: CacheRow, longest: int, room: int, palette: Palette) -> Text:
    """The stretches on a scale on which the longest prompt fills the room."""
    styles = {
        Stretch.CACHED: palette.cached,
        Stretch.PROMPT_CACHE: palette.cached,
        Stretch.RESTORED: palette.restored,
        Stretch.COMPUTED: palette.computed,
        Stretch.UNKNOWN: palette.warn,
    }
    bar = Text()
    for stretch in row.stretches:
        start, end = (round(edge / longest * room) for edge in (stretch.start, stretch.end))
        if stretch.end > stretch.start:
            end = max(end, start + (1 if len(bar) <= start and start < room else 0))
        bar.append(STRETCH_SIGNS[stretch.kind] * max(end - len(bar), 0), style=styles[stretch.kind])
    if row.broke_at is not None and row.cached_tokens and len(bar):
        place = min(round(row.broke_at / longest * room), len(bar) - 1)
        bar = bar[:place] + Text("╎", style=palette.bad) + bar[place + 1 :]
    return bar + Text(" " * max(room - len(bar), 0))
