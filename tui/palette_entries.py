"""The command palette's entries, made from the table of actions. Imported when the palette opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Provider

from tui.actions import Action, Context, actions_of
from tui.bindings import target_of

if TYPE_CHECKING:
    from textual.command import Hits


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
