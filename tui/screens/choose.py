"""A short list to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import OptionList


class ChooseScreen(ModalScreen[int | None]):
    """Gives the place of the chosen line, None after Escape."""

    DEFAULT_CSS = """
    ChooseScreen { align: center middle; }
    ChooseScreen OptionList { width: 44; height: auto; border: round $primary; background: $background; }
    """
    BINDINGS: ClassVar = [
        Binding("escape", "give_up", "back"),
        Binding("j", "move(1)", "down"),
        Binding("k", "move(-1)", "up"),
    ]

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._question, self._choices = question, choices

    def compose(self) -> ComposeResult:
        options = OptionList(*(Text(choice) for choice in self._choices))
        options.border_title = self._question
        options.border_subtitle = "Enter, or Esc"
        yield options

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if step > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_give_up(self) -> None:
        self.dismiss(None)
