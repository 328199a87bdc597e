"""A page that says what a trace is and what to do next, before (or instead of) showing it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from tui.palette import Palette
from tui.view_model import Advice
from tui.widgets.lines import LinesPane, paragraph


def advice_lines(advice: Advice, room: int, palette: Palette, *, may_go_on: bool) -> list[Text]:
    """The page at this width."""
    lines = [Text("")]
    for part in advice.what:
        lines += paragraph(part, room, palette.plain)
    if advice.next_steps:
        lines += [Text(""), Text("What to do next", style=palette.heading)]
    for step in advice.next_steps:
        command, _, why = step.partition("    ")
        lines += paragraph(command, room, palette.strong, indent="  ")
        lines += paragraph(why, room, palette.faint, indent="      ") if why else []
    lines += [Text(""), Text("Enter: look at it    q: quit" if may_go_on else "q: quit", style=palette.faint)]
    return lines


class AdvicePane(LinesPane):
    """The page's text."""

    def __init__(self, advice: Advice, *, may_go_on: bool) -> None:
        super().__init__(id="advice")
        self._advice, self._may_go_on = advice, may_go_on

    def on_resize(self) -> None:
        self.set_lines(advice_lines(self._advice, self.room, self.palette, may_go_on=self._may_go_on))


class AdviceScreen(ModalScreen[None]):
    """Over the trace where there is one to look at, alone where there is not."""

    DEFAULT_CSS = """
    AdviceScreen { align: center middle; }
    AdviceScreen #advice {
        width: 92%; max-width: 90; height: auto; min-height: 16; max-height: 90%;
        border: round $primary; padding: 0 1; background: $background;
    }
    """
    BINDINGS: ClassVar = [
        Binding("enter,escape,space", "go_on", "look at it"),
        Binding("q", "app.quit", "quit"),  # a modal screen hides the application's own keys
        Binding("down,j", "scroll(1)", "down"),
        Binding("up,k", "scroll(-1)", "up"),
    ]

    def __init__(self, advice: Advice, *, may_go_on: bool) -> None:
        super().__init__()
        self.advice = advice
        self._may_go_on = may_go_on

    def compose(self) -> ComposeResult:
        pane = AdvicePane(self.advice, may_go_on=self._may_go_on)
        pane.border_title = self.advice.title
        yield pane

    def on_mount(self) -> None:
        self.query_one(AdvicePane).focus()

    def action_go_on(self) -> None:
        if self._may_go_on:
            self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        self.query_one(AdvicePane).scroll_relative(y=lines, animate=False)
