"""``cachetrace ladder``: one model in several weight formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``ladder``."""
    app.command("ladder")(ladder)


def ladder(
    model: Annotated[Path, typer.Argument(help="The GGUF file to start from, best in F16 or BF16.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the files and ladder.json.")],
    formats: Annotated[
        str, typer.Option(help="Weight formats, separated by commas.")
    ] = "F16,Q8_0,Q4_K_M,Q3_K_M",
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Write one model in several weight formats with llama.cpp's quantizer.

    Says which tensors fell back to another type, and warns when the source is itself quantized.
    """
    from tracer.engines.llama.library import load_library

    load_library()
    import msgspec

    from tracer.clean_text import clean
    from tracer.engines.llama.quantize import make_ladder
    from tracer.errors import UsageError

    names = [name.strip().upper() for name in formats.split(",") if name.strip()]
    if not names:
        raise UsageError("--formats names no weight format; give some, such as F16,Q8_0,Q4_K_M.")
    record = make_ladder(model, names, output, say=lambda text: typer.echo(clean(text), err=True))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(record), indent=1))
        return
    for made in record.formats:
        types = ", ".join(f"{count} {name}" for name, count in sorted(made.types.items()))
        fallen = len(made.fallen_back)
        typer.echo(
            f"{made.weight_format:8} {made.size_bytes / 1e6:8.1f} MB  {clean(made.file)}  "
            f"matrices: {types}; fallen back: {fallen}"
        )
