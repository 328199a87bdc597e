"""The footer: the keys of the context that fit on one line; help and quit always stand at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from tui.actions import Action, Context, actions_of
from tui.bindings import target_of
from tui.palette import palette_of

if TYPE_CHECKING:
    from textual import events

_ALWAYS = ("help", "quit")


class KeyLine(Widget):
    """One line of keys, made from the table of actions. A click runs the action."""

    DEFAULT_CSS = "KeyLine { height: 1; }"

    def __init__(self, *contexts: Context) -> None:
        super().__init__()
        shown = [action for action in actions_of(*contexts) if action.footer]
        self._first = [action for action in shown if action.name not in _ALWAYS]
        self._last = [action for action in shown if action.name in _ALWAYS]

    def placed(self) -> list[tuple[int, Action]]:
        """(first cell, action) of what fits."""
        width = self.size.width
        x = width - sum(_cells(action) for action in self._last)
        end = [(0, action) for action in self._last]
        for place, action in enumerate(self._last):
            end[place] = (x, action)
            x += _cells(action)
        room = end[0][0] if end else width
        found, x = [], 0
        for action in self._first:
            if x + _cells(action) > room:
                break
            found.append((x, action))
            x += _cells(action)
        return [*found, *end]

    def render(self) -> Text:
        palette = palette_of(self.app)
        line = Text(no_wrap=True, end="")
        for x, action in self.placed():
            line.append(" " * max(x - len(line.plain), 0))
            line.append(action.key_shown, style=palette.heading)
            line.append(f" {action.footer}  ", style=palette.faint)
        return line

    async def on_click(self, event: events.Click) -> None:
        for x, action in self.placed():
            if x <= event.x < x + _cells(action):
                await self.app.run_action(target_of(action), default_namespace=self.screen)
                return


def _cells(action: Action) -> int:
    return len(action.key_shown) + 1 + len(action.footer or "") + 2
