"""``cachetrace replay``: run a recorded episode again under other cache states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options
from tracer.commands.shared_options import CarryOver, Logits, Quiet, Sentinel

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Run a recorded episode again under other cache states; the new arms go into the same file.

\b
Examples:
  cachetrace replay office.msgpack                          # cold and warm, each twice
  cachetrace replay office.msgpack --state cold,warm,snapshot,no-prompt-cache
  cachetrace replay office.msgpack --state warm --priming own,lockstep,prompt-only --repeat 1
  cachetrace replay office.msgpack --closed-loop            # the agent goes on with each arm's own answers
  cachetrace replay talks/ --carry-over --passes 2          # all episodes on one cache, run to run

Run the same command again to take up what was stopped. The engine and the model come from these
options and your settings, never from the file; what differs from the recording is refused.
"""


def register(app: typer.Typer) -> None:
    """Add ``replay``."""
    app.command("replay", help=HELP)(replay)


@with_engine_options
def replay(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A trace file, or a folder of them.")],
    *,
    choice: EngineChoice,
    state: Annotated[
        str,
        typer.Option(metavar="STATES", help="Of cold, warm, snapshot, no-prompt-cache; with commas."),
    ] = "cold,warm",
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Run each arm so often from the same fresh start (default 2).")
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(min=2, help="Instead: N passes, caches not emptied in between."),
    ] = None,
    priming: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="How a warm cache is filled: own (default), lockstep, self, prompt-only."
        ),
    ] = None,
    closed_loop: Annotated[
        bool, typer.Option("--closed-loop", help="The agent goes on with this arm's own answers.")
    ] = False,
    forced: Annotated[
        bool,
        typer.Option("--forced", help="Decode the recorded tokens, so that no flip is in the way."),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="Follow this arm's prompts; default: the recording."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="ARM", help="Compare with this arm; default: the first cold arm.")
    ] = None,
    logits: Logits = "top",
    requests: Annotated[int | None, typer.Option(min=1, help="Only the first N requests.")] = None,
    carry_over: CarryOver = False,
    sentinel: Sentinel = False,
    again: Annotated[
        bool, typer.Option("--again", help="Add repeats to those that the file has already.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on although the engine is not the one that recorded.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write into this copy instead.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Wire the options to ``replay.command_run``; its help text is ``HELP``."""
    from tracer.engines.registry import preload

    preload(choice)
    from replay.command_run import ReplayCommand

    command = ReplayCommand.parse(
        path=path,
        state=state,
        repeat=repeat,
        passes=passes,
        priming=priming,
        closed_loop=closed_loop,
        forced=forced,
        source=source,
        baseline=baseline,
        logits=logits,
        requests=requests,
        carry_over=carry_over,
        sentinel=sentinel,
        again=again,
        anyway=anyway,
        output=output,
        quiet=quiet,
    )
    for line in command.run(choice):
        typer.echo(line)
