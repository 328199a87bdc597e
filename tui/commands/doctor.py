"""``cachetrace doctor``: what an engine lets us see and control, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Which engine and version; what can be observed and controlled; which cache layers are on.

\b
Examples:
  cachetrace doctor                                  # the engine that your options and settings choose
  cachetrace doctor qwen.gguf --gpu-layers 99        # a model in this process
  cachetrace doctor http://127.0.0.1:8080            # a running server: it is asked, never changed
"""


def register(app: typer.Typer) -> None:
    """Add ``doctor``."""
    app.command("doctor", help=HELP)(doctor)


@with_engine_options
def doctor(
    target: Annotated[str | None, typer.Argument(metavar="[MODEL|URL]", show_default=False)] = None,
    *,
    choice: EngineChoice,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Wire the options to ``tui.doctor``; its help text is ``HELP``."""
    from tracer.engines.registry import preload

    if target is None or not target.startswith(("http://", "https://")):
        preload(choice)
    import msgspec

    from tracer.clean_text import clean
    from tui.doctor import examine

    findings = examine(target, choice)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(findings)).decode())
        return
    for finding in findings:
        head = finding.name
        for line in finding.lines:
            typer.echo(f"{head:<15} {clean(line)}")
            head = ""
