"""One line at the top: which episode, which arms, where the cursor is, what is going on."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from tui.palette import palette_of
from tui.token_text import clipped, without_controls


class StatusLine(Widget):
    """Left: the episode and its arms. Right: where one is, or the progress of a running replay."""

    DEFAULT_CSS = "StatusLine { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._left = ""
        self._right = ""
        self._urgent = False

    def show(self, left: str, right: str, *, urgent: bool = False) -> None:
        """Set both ends; ``urgent`` marks the right one."""
        now = (without_controls(left), without_controls(right), urgent)
        if now != (self._left, self._right, self._urgent):
            self._left, self._right, self._urgent = now
            self.refresh()

    @property
    def text(self) -> str:
        """What it says now."""
        return f"{self._left} {self._right}".strip()

    def render(self) -> Text:
        palette = palette_of(self.app)
        width = self.size.width
        right = clipped(self._right, max(width - 12, 10))
        left = clipped(self._left, max(width - cell_len(right) - 1, 0))
        gap = max(width - cell_len(left) - cell_len(right), 0)
        line = Text(left, style=palette.heading, no_wrap=True, end="")
        line.append(" " * gap)
        line.append(right, style=palette.warn + palette.strong if self._urgent else palette.faint)
        return line
