"""Options that several commands have, with one wording."""

from __future__ import annotations

from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
Logits = Annotated[str, typer.Option(metavar="WHAT", help="top (default), or full: keep whole rows too.")]
CarryOver = Annotated[
    bool, typer.Option("--carry-over", help="Folder: keep the caches from one episode to the next.")
]
Sentinel = Annotated[
    bool, typer.Option("--sentinel", help="Folder: serve one fixed request before each episode, unrecorded.")
]
