"""``cachetrace bisect``: which setting is to blame for cold-against-warm divergence on one episode.

It stands here, and not beside ``replay``, because its table is made by ``stats``; the experiment itself
is ``replay.bisect``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options
from tracer.commands.shared_options import Quiet

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Find the setting to blame for cold-against-warm divergence on one episode.

\b
Examples:
  cachetrace bisect office.msgpack -o office-bisect/
  cachetrace bisect office.msgpack --requests 1,3 --candidate ubatch=1,8 --candidate flash-attention=off
  cachetrace bisect office.msgpack --engine llama-server --server-bin ./llama-server --json

Each candidate is its own baseline: under it the same prompts are asked cold and warm. The result is the
smallest change that makes the two identical, its cost, and a verifying run; "no divergence" and "none
found" are results too. Settings: ubatch, flash-attention, kv-type, threads, batch, prompt-cache; for
llama-server also repacking, context-checkpoints, idle-slots, cache-reuse, speculative, slots.
Run it again with the same -o to take up what was stopped.
"""


def register(app: typer.Typer) -> None:
    """Add ``bisect``."""
    app.command("bisect", help=HELP)(bisect)


@with_engine_options
def bisect(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A trace file.")],
    *,
    choice: EngineChoice,
    candidate: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE,…", help="Try these values; can be repeated. Default: all known."),
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option(metavar="N,…", help="Ask these requests; default: the shortest that show it."),
    ] = None,
    most_pairs: Annotated[
        int, typer.Option("--pairs", min=0, help="Try at most so many pairs when no single setting does it.")
    ] = 6,
    priming: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="How the warm cache is filled: own (default), self, prompt-only."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="ARM", help="Take this arm's prompts; default: the recording.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on although the model is not the recorded one.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder of the traces; default: a temporary one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Wire the options to ``replay.bisect``; its help text is ``HELP``."""
    import sys
    import tempfile

    from replay.bisect.search import BisectOptions, bisect_trace, priming_named
    from replay.bisect.settings import IN_PROCESS
    from stats.bisect_table import bisect_report
    from stats.commands.written import command_line, terminal_width, write_text
    from tracer.progress import progress_for

    options = BisectOptions(
        candidates=tuple(candidate or ()),
        requests=requests,
        most_pairs=most_pairs,
        priming=priming_named(priming),
        source=source,
        anyway=anyway,
        isolated=choice.engine in IN_PROCESS,
        command=command_line(sys.argv),
    )
    progress = progress_for(quiet=quiet)
    folder = output or Path(tempfile.mkdtemp(prefix="cachetrace-bisect-"))
    progress.note(f"the traces of all configurations go into {folder}")
    result = bisect_trace(path, choice, folder, options, progress)
    report = bisect_report(result, command_line(sys.argv))
    if as_json:
        from stats.renderers.json import render_json

        write_text(render_json(report), None)
    else:
        from stats.renderers.terminal import render_terminal

        write_text(render_terminal(report, terminal_width()), None)
