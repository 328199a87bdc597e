"""Textual's bindings and palette entries, made from the table of actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Provider

from tui.actions import Action, Context, actions_of

if TYPE_CHECKING:
    from textual.command import Hits


def bindings_of(*contexts: Context) -> list[BindingType]:
    """One binding for every key of every action of these contexts."""
    found: list[BindingType] = []
    for action in actions_of(*contexts):
        target = target_of(action)
        for place, key in enumerate(action.keys):
            found.append(
                Binding(
                    key,
                    target,
                    action.footer or action.help,
                    show=bool(action.footer) and place == 0,
                    tooltip=action.help,
                )
            )
    return found


def app_action(action: Action) -> str:
    """The application's method for an action that works everywhere."""
    return {"palette": "command_palette"}.get(action.name, action.name)


def target_of(action: Action) -> str:
    """The action as Textual writes it."""
    return f"app.{app_action(action)}" if action.context is Context.EVERYWHERE else action.name


class ActionCommands(Provider):
    """The command palette: every action of the screen below it."""

    def _entries(self) -> list[tuple[Action, str]]:
        contexts: tuple[Context, ...] = getattr(self.screen, "contexts", (Context.EVERYWHERE,))
        return [
            (action, f"{action.help} ({action.keys_shown})")
            for action in actions_of(*contexts)
            if action.name != "palette"
        ]

    async def _run(self, action: Action) -> None:
        await self.app.run_action(target_of(action), default_namespace=self.screen)

    async def discover(self) -> Hits:
        for action, entry in self._entries():
            yield DiscoveryHit(entry, lambda action=action: self._run(action), help=action.group)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action, entry in self._entries():
            score = matcher.match(entry)
            if score > 0:
                yield Hit(score, matcher.highlight(entry), lambda action=action: self._run(action))
