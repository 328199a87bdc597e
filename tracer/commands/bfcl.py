"""``cachetrace bfcl setup``: get the benchmark's wheel, check it, keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``bfcl``."""
    group = typer.Typer(help="The Berkeley Function Calling Leaderboard as a workload.", no_args_is_help=True)
    group.callback()(bfcl)
    group.command("setup")(setup)
    app.add_typer(group, name="bfcl")


def bfcl() -> None:
    """The Berkeley Function Calling Leaderboard, multi-turn base, as a workload."""


def setup(
    wheel: Annotated[
        Path | None, typer.Option(help="Take this wheel, which you downloaded, instead of asking pip for it.")
    ] = None,
) -> None:
    """Get the one pinned wheel of bfcl-eval (2 MB, without dependencies), check its hash, keep it.

    Then: cachetrace record --workload bfcl …
    """
    from tracer.workloads.bfcl.setup import set_up

    typer.echo(set_up(wheel))
