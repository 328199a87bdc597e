"""Sub-commands of ``tracer``: each module only wires, and imports what is heavy inside its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

NAMES = ("ladder", "model", "bfcl", "record", "show", "validate")
"""Of all its sub-commands; the front door imports only the package that has the one called."""


def register(app: typer.Typer) -> None:
    """Add this package's sub-commands to the front door."""
    from tracer.commands import bfcl, ladder, model, record, show, validate

    ladder.register(app)
    model.register(app)
    bfcl.register(app)
    record.register(app)
    show.register(app)
    validate.register(app)
