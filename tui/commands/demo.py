"""``cachetrace demo``: everything once, in two minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options
from tracer.commands.shared_options import Quiet

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Record a short episode with the small model, replay it under every cache state, print the report.

On a terminal the screen opens at the first flip. Run it again to look at the same trace.

\b
Examples:
  cachetrace demo
  cachetrace demo --recorded         # a trace that is shipped: no engine, no model, no waiting
"""


def register(app: typer.Typer) -> None:
    """Add ``demo``."""
    app.command("demo", help=HELP)(demo)


@with_engine_options
def demo(
    *,
    choice: EngineChoice,
    recorded: Annotated[bool, typer.Option("--recorded", help="Open a trace that is shipped.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Trace file to write.")
    ] = None,
    turns: Annotated[
        int | None, typer.Option(min=1, help="User turns of the office task; default 5.", show_default=False)
    ] = None,
    screen: Annotated[bool, typer.Option("--screen/--no-screen", help="Open the screen afterwards.")] = True,
    quiet: Quiet = False,
) -> None:
    """Wire the options to ``tui.demo``; its help text is ``HELP``."""
    from tracer.errors import UsageError
    from tui.demo import DEFAULT_FILE, TURNS, printed_report, record_and_replay, recorded_copy

    if recorded and (output is not None or turns is not None):
        raise UsageError("--recorded opens a trace that is shipped as it is; leave out -o and --turns.")
    path = recorded_copy() if recorded else output or DEFAULT_FILE
    run = not recorded and _must_run(path, choice)
    from stats.commands.written import terminal_width, write_text

    if run:
        record_and_replay(path, choice, turns=turns or TURNS, quiet=quiet)
    write_text(printed_report(path, terminal_width()), None)
    sys.stderr.write(f"The trace is {path}; look at it again with: cachetrace tui {path}\n")
    if screen and sys.stdin.isatty() and sys.stdout.isatty():
        from tui.app import TraceApp

        TraceApp(path, choice=choice).run()


def _must_run(path: Path, choice: EngineChoice) -> bool:
    """Whether arms are missing. The engine's library comes first, since reading the file imports numpy."""
    from tracer.engines.registry import preload
    from tracer.errors import EngineMissing
    from tui.demo import is_complete

    missing = None
    try:
        preload(choice)
    except EngineMissing as error:
        missing = error  # no matter, where the file has everything
    if is_complete(path):
        return False
    if missing is not None:
        raise missing
    return True
