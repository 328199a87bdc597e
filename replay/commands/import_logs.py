"""``cachetrace import``: released logs, or plain JSON Lines, as traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Turn logs of others into traces that can be stepped through, compared and counted.

SOURCE is a folder of the paper's released artifact (any part of it), or a JSON Lines file with one request
and its answer a line (fields: docs/importing.md). Prompts are not in the released logs, so such
traces cannot be replayed; vLLM rows are compared by token strings. The report says both.

\b
Examples:
  cachetrace import cache-divergence-study/results/lcpp-qwen7b-q4km -o traces/
  cachetrace report traces/
  cachetrace import requests.jsonl -o traces/
"""


def register(app: typer.Typer) -> None:
    """Add ``import``."""
    app.command("import", help=HELP)(import_command)


def import_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A folder of the artifact, or a file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the traces.")],
    *,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Leave out episodes that an arm lacks, in place of refusing.")
    ] = False,
) -> None:
    """Wire the importer."""
    from replay.artifact_import.importing import import_logs

    found = import_logs(source, output, anyway=anyway)
    for name, count in found.written.items():
        typer.echo(f"{name}: {count} traces")
    for log in found.passed_over:
        typer.echo(f"passed over: {log} (its settings are not known here)", err=True)
    typer.echo(f"{sum(found.written.values())} traces in {output}; `cachetrace report {output}` counts them.")
