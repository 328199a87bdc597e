"""Sub-commands of ``replay``: each module only wires, and imports what is heavy inside its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

NAMES = ("replay", "isolate", "import", "study")
"""Of all its sub-commands; the front door imports only the package that has the one called."""


def register(app: typer.Typer) -> None:
    """Add this package's sub-commands to the front door."""
    from replay.commands import import_logs, isolate, replay, study

    replay.register(app)
    isolate.register(app)
    study.register(app)
    import_logs.register(app)
