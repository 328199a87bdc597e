"""``cachetrace isolate``: experiments that isolate what makes answers depend on the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options
from tracer.commands.shared_options import Quiet

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Run the experiments that isolate the cause: which cache layer, which order, the restored state.

\b
Examples:
  cachetrace isolate                                    # 12 built-in items on the embedded engine
  cachetrace isolate office.msgpack -o why/             # the requests of a recording as items
  cachetrace isolate --experiment second-layer,restored --items 16

Prints the trace file of each experiment and on how many items its arms differ. Run the same command
again to go on after a stop.
"""


def register(app: typer.Typer) -> None:
    """Add ``isolate``."""
    app.command("isolate", help=HELP)(isolate)


@with_engine_options
def isolate(
    path: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Take the requests of this trace as items.")
    ] = None,
    *,
    choice: EngineChoice,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the traces.")
    ] = Path("isolate"),
    experiment: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Of second-layer, pass-order, item-order, restored; with commas."),
    ] = None,
    items: Annotated[int | None, typer.Option(min=2, help="Number of items (default 12, or all).")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="New tokens an item.")] = 24,
    quiet: Quiet = False,
) -> None:
    """Wire the options to ``replay.isolate.run``; its help text is ``HELP``."""
    from tracer.engines.registry import preload

    preload(choice)
    from replay.isolate.command_run import run_command

    for line in run_command(
        path=path,
        choice=choice,
        folder=output,
        experiments=experiment,
        items=items,
        max_new_tokens=max_new_tokens,
        quiet=quiet,
    ):
        typer.echo(line)
