"""One line of input at the bottom of the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input


class AskScreen(ModalScreen[str | None]):
    """Asks for one line; Escape gives None."""

    DEFAULT_CSS = """
    AskScreen { background: transparent; align: left bottom; }
    AskScreen Input { dock: bottom; height: 3; border: round $primary; }
    """
    BINDINGS: ClassVar = [Binding("escape", "give_up", "back")]

    def __init__(self, question: str, value: str) -> None:
        super().__init__()
        self._question, self._value = question, value

    def compose(self) -> ComposeResult:
        field = Input(value=self._value)
        field.border_title = self._question
        yield field

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_give_up(self) -> None:
        self.dismiss(None)
