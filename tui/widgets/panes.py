"""Which panes there are, in the order of their numbers."""

from __future__ import annotations

from msgspec import Struct


class Pane(Struct, frozen=True):
    """One pane: its widget's id and its title."""

    id: str
    title: str


PANES: tuple[Pane, ...] = (
    Pane("requests", "requests"),
    Pane("tokens", "tokens"),
    Pane("top-k", "top-k"),
    Pane("flip", "flip"),
    Pane("drift", "drift"),
    Pane("cache", "cache"),
    Pane("arms", "arms"),
)
HUGE_COLUMNS = 160
WIDE_COLUMNS = 120
"""From this width on all panes stand side by side; below it they are tabs."""
