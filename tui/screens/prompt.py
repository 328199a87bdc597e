"""The prompt of one request: which stretch came from a cache, and the token where the prefix broke."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from replay.divergence import PromptStretch, Stretch
from tracer.clean_text import NEWLINE_SIGN, cells, clean
from tui.actions import Context
from tui.bindings import bindings_of
from tui.palette import Palette
from tui.token_text import clipped, without_controls
from tui.trace_model import TraceModel
from tui.view_model import Cursor, PromptView
from tui.views.prompt import prompt_view
from tui.widgets.cache_timeline import STRETCH_SIGNS
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import LinesPane, finished
from tui.widgets.status_line import StatusLine

_MARGIN = 8
"""Cells at the left: position of the line's first token, and the sign of its stretch."""


class PromptPane(LinesPane):
    """Prompt tokens as running text; the sign at the left says how a line's first token came to be."""

    def __init__(self, model: TraceModel) -> None:
        super().__init__(id="prompt")
        self._model = model
        self._view: PromptView | None = None
        self._starts: list[int] = [0]
        self._ids = False

    def show(self, view: PromptView, *, ids: bool) -> None:
        """Show another prompt."""
        self._view, self._ids = view, ids
        self._lay_out()
        self.refresh()

    def on_resize(self) -> None:
        self._lay_out()

    @property
    def break_line(self) -> int | None:
        """The line of the token at which the prefix broke."""
        if self._view is None or self._view.broke_at is None:
            return None
        return max(bisect_right(self._starts, self._view.broke_at) - 1, 0)

    def _text(self, token_id: int) -> str:
        return f"{token_id} " if self._ids else self._model.text(token_id)

    def _lay_out(self) -> None:
        """First token of every line: full lines, and a new line after a newline or at a stretch's end."""
        view = self._view
        ids = view.token_ids if view is not None else None
        if view is None or ids is None or not self.size.width:
            self._starts = [0]
            return
        room = max(self.room - _MARGIN, 8)
        unique, places = np.unique(ids, return_inverse=True)
        texts = [self._text(i) for i in unique.tolist()]
        widths = np.array([min(max(cells(t), 1), room) for t in texts], np.int64)[places.ravel()]
        ends_line = np.array([t.endswith(NEWLINE_SIGN) for t in texts], np.bool_)[places.ravel()]
        borders = {s.start for s in view.stretches} | (
            {view.broke_at} if view.broke_at is not None else set()
        )
        self._starts, used = [0], 0
        for position, width in enumerate(widths.tolist()):
            new_line = position in borders or (position > 0 and ends_line[position - 1])
            if position and (used + width > room or new_line):
                self._starts.append(position)
                used = 0
            used += width
        self.virtual_size = Size(self.room, len(self._starts))

    def render_line(self, y: int) -> Strip:
        place = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        view = self._view
        palette = self.palette
        if view is None or view.token_ids is None:
            text = view.note if view is not None and place == 0 else ""
            return finished(Strip([Segment(clean(text), palette.warn)]), 0, width, self.rich_style)
        if place >= len(self._starts):
            return Strip.blank(width, self.rich_style)
        start = self._starts[place]
        end = self._starts[place + 1] if place + 1 < len(self._starts) else len(view.token_ids)
        stretch = _stretch_at(view.stretches, start)
        broke = start == view.broke_at
        sign = "╎" if broke else STRETCH_SIGNS[stretch]
        margin_style = palette.bad if broke else _style(stretch, palette)
        found = [Segment(f"{start:>{_MARGIN - 2}}{sign} ", margin_style)]
        for position in range(start, end):
            text = clipped(self._text(int(view.token_ids[position])), max(self.room - _MARGIN, 8))
            style = _style(stretch, palette)
            if position == view.broke_at:
                style = palette.flip
            found.append(Segment(without_controls(text), style))
        return finished(Strip(found), 0, width, self.rich_style)


class PromptScreen(Screen[None]):
    """One prompt on the whole screen."""

    BINDINGS: ClassVar = bindings_of(Context.PROMPT)
    contexts = (Context.PROMPT, Context.EVERYWHERE)

    def __init__(self, model: TraceModel, cursor: Cursor, arm: int) -> None:
        super().__init__()
        self._model, self._cursor = model, cursor
        self.arm = arm
        self.ids = cursor.ids

    def compose(self) -> ComposeResult:
        yield StatusLine()
        yield PromptPane(self._model)
        yield KeyLine(*self.contexts)

    def on_mount(self) -> None:
        self._show()
        self.query_one(PromptPane).focus()
        self.call_after_refresh(self.action_to_break)

    def _show(self) -> None:
        view = prompt_view(self._model, self.arm, self._cursor.request)
        self.query_one(PromptPane).show(view, ids=self.ids)
        parts = [f"{STRETCH_SIGNS[s.kind]} {s.kind} {s.start}–{s.end}" for s in view.stretches]
        if view.broke_at is not None:
            parts.append(f"╎ prefix broke at {view.broke_at}")
        left = f"prompt of request {view.request} in {clean(view.label)}"
        self.query_one(StatusLine).show(left, "  ".join(parts))

    def reload(self) -> None:
        """After a change of theme or of the file."""
        self._show()

    def action_scroll(self, lines: int) -> None:
        self.query_one(PromptPane).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        pane = self.query_one(PromptPane)
        pane.scroll_relative(y=pages * max(pane.size.height - 1, 1), animate=False)

    def action_end(self, side: int) -> None:
        pane = self.query_one(PromptPane)
        if side < 0:
            pane.scroll_home(animate=False)
        else:
            pane.scroll_end(animate=False)

    def action_to_break(self) -> None:
        pane = self.query_one(PromptPane)
        if pane.break_line is not None:
            pane.scroll_to(y=max(pane.break_line - 2, 0), animate=False)

    def action_arm(self) -> None:
        arms = [arm.index for arm in self._model.arms]
        self.arm = arms[(arms.index(self.arm) + 1) % len(arms)]
        self._show()

    def action_ids(self) -> None:
        self.ids = not self.ids
        self._show()

    def action_back(self) -> None:
        self.dismiss(None)


def _stretch_at(stretches: tuple[PromptStretch, ...], position: int) -> Stretch:
    return next((s.kind for s in stretches if s.start <= position < s.end), Stretch.UNKNOWN)


def _style(stretch: Stretch, palette: Palette) -> Style:
    return {
        Stretch.CACHED: palette.cached,
        Stretch.PROMPT_CACHE: palette.cached,
        Stretch.RESTORED: palette.restored,
        Stretch.COMPUTED: palette.plain,
        Stretch.UNKNOWN: palette.faint,
    }[stretch]
