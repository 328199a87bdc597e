"""``cachetrace tui``: look at a trace, or at a folder of traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Look at a trace: step to the token that flipped, and see by how little.

\b
Examples:
  cachetrace tui episode.msgpack
  cachetrace tui episode.msgpack --request 12 --token 87 --arm warm
  cachetrace tui runs/                                      # a list of episodes to go into
  cachetrace tui episode.msgpack --model qwen.gguf          # with an engine for r and R

Press ? for every key. The engine options and your settings say what r and R replay with; a trace
never starts or contacts anything.
"""


def register(app: typer.Typer) -> None:
    """Add ``tui``."""
    app.command("tui", help=HELP)(tui)


@with_engine_options
def tui(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A trace file, or a folder of them.")],
    *,
    choice: EngineChoice,
    request: Annotated[int | None, typer.Option(min=0, help="Open at this request, from 0.")] = None,
    token: Annotated[int | None, typer.Option(min=0, help="Open at this output token, from 0.")] = None,
    arm: Annotated[
        str | None, typer.Option(metavar="ARM", help="Open with this arm: label or number.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(metavar="ARM", help="Hold it against this arm.")] = None,
    near_tie: Annotated[
        float, typer.Option("--near-tie", min=0.0, help="Margin below which a token is a near tie.")
    ] = 0.1,
) -> None:
    """Wire the options to a ``TraceApp``; its help text is ``HELP``."""
    import gc
    import sys

    from tracer.errors import UsageError

    if not path.exists():
        raise UsageError(f"{path} does not exist; give a trace file, or a folder of traces.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"The screen needs a terminal; cachetrace show {path} prints what is in a trace.")
    # Importing makes many objects and no garbage; collecting it in between costs a tenth of a second.
    # The application switches it on again with its first paint.
    gc.disable()
    from tui.app import Opening, TraceApp

    opening = Opening(request, token, arm, baseline)
    TraceApp(path, opening=opening, choice=choice, near_tie=near_tie).run()
