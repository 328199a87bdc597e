"""Sub-commands of ``tui``: each module only wires, and imports what is heavy inside its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

NAMES = ("demo", "doctor", "tui")
"""Of all its sub-commands; the front door imports only the package that has the one called."""


def register(app: typer.Typer) -> None:
    """Add this package's sub-commands to the front door."""
    from tui.commands import demo, doctor, tui

    demo.register(app)
    tui.register(app)
    doctor.register(app)
