"""``cachetrace validate``: is a trace file whole, and may it be given away?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Check a trace file: structure, checksums of everything, contradictions, likely secrets.

\b
Examples:
  cachetrace validate episode.msgpack
  cachetrace validate episode.msgpack --redact -o to-share.msgpack
"""


def register(app: typer.Typer) -> None:
    """Add ``validate``."""
    app.command("validate", help=HELP)(validate)


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trace file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Findings as JSON.")] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Also write a copy without likely secrets and bodies (-o).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="NEW", help="Where --redact writes the copy.")
    ] = None,
) -> None:
    """Exit status 0: whole (warnings are listed); 2: broken."""
    from tracer.clean_text import clean, json_text
    from tracer.errors import TraceFormatError, UsageError
    from tracer.tracefile.redaction import redact as write_redacted
    from tracer.tracefile.validation import Level
    from tracer.tracefile.validation import validate as check

    if redact != (output is not None):
        raise UsageError("--redact and -o NEW go together: name the copy that shall be written.")
    result = check(file)
    if as_json:
        typer.echo(json_text({"broken": result.broken, "result": result}))
    else:
        for finding in result.findings:
            typer.echo(f"{finding.level}: {clean(finding.sentence)}")
        typer.echo(
            f"{clean(str(file))}: {'BROKEN' if result.broken else 'whole'}; format {result.format}, "
            f"{result.arms} arms, {result.requests} requests, {result.output_tokens} output tokens, "
            f"{sum(f.level is Level.WARNING for f in result.findings)} warnings."
        )
    if result.broken:
        count = sum(finding.level is Level.BROKEN for finding in result.findings)
        raise TraceFormatError(f"{file} is broken in {count} places; what is listed cannot be relied on.")
    if output is not None:
        hidden = write_redacted(file, output)
        typer.echo(
            f"Wrote {clean(str(output))}: recorded bodies removed, {hidden} tokens hidden. Patterns find "
            "likely secrets only; look at the copy before you give it away.",
            err=True,
        )
