"""The tabs of the narrow layout: one line, the number of a pane before its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from tui.palette import palette_of
from tui.widgets.panes import PANES

if TYPE_CHECKING:
    from textual import events


class TabLine(Widget):
    """Seven names on one line; a click chooses a pane."""

    DEFAULT_CSS = "TabLine { height: 1; }"

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self) -> None:
        super().__init__()
        self._active = 0

    def show(self, active: int) -> None:
        """Mark this pane as the open one."""
        if active != self._active:
            self._active = active
            self.refresh()

    def _words(self) -> list[str]:
        gap = 2 if self.size.width >= 66 else 1
        return [f"{place + 1} {pane.title}" + " " * gap for place, pane in enumerate(PANES)]

    def render(self) -> Text:
        palette = palette_of(self.app)
        line = Text(no_wrap=True, end="")
        for place, word in enumerate(self._words()):
            active = place == self._active
            line.append(word.rstrip(), style=palette.heading + palette.cursor if active else palette.faint)
            line.append(word[len(word.rstrip()) :])
        return line

    def on_click(self, event: events.Click) -> None:
        x = event.x
        for place, word in enumerate(self._words()):
            x -= len(word)
            if x < 0:
                self.post_message(self.Chosen(place))
                return
