"""Textual's bindings, made from the table of actions."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from tui.actions import Action, Context, actions_of


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
