"""``cachetrace show``: what a trace file holds, as text or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tracer.episode import Arm
    from tracer.tracefile import TraceReader

HELP = """Show what a trace file holds: its episode, arms, requests and tokens.

\b
Examples:
  cachetrace show episode.msgpack
  cachetrace show episode.msgpack --arm warm --request 3 --tokens
  cachetrace show episode.msgpack --json | jq '.arms[].label'
"""


def register(app: typer.Typer) -> None:
    """Add ``show``."""
    app.command("show", help=HELP)(show)


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trace file.")],
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON, for scripts.")] = False,
    request: Annotated[
        int | None, typer.Option("--request", metavar="N", min=0, help="Only request N, in detail.")
    ] = None,
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="LABEL", help="Only this arm (label or index).")
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Every output token with its value and the best alternatives.")
    ] = False,
) -> None:
    """Print the listing to stdout."""
    from tracer.clean_text import json_text
    from tracer.errors import UsageError
    from tracer.trace_listing import choose_arms, listing
    from tracer.tracefile import TraceReader

    with TraceReader.open(file) as trace:
        arms = choose_arms(trace, arm)
        if request is not None and all(request >= len(trace.requests(a)) for a in arms):
            most = max((len(trace.requests(a)) for a in arms), default=0)
            raise UsageError(f"there is no request {request}; {most} are recorded, counted from 0.")
        if as_json:
            typer.echo(json_text(_as_json(trace, arms, request, tokens)))
        else:
            for line in listing(trace, arms, request, tokens):
                typer.echo(line)


def _as_json(trace: TraceReader, arms: tuple[Arm, ...], request: int | None, tokens: bool) -> dict[str, Any]:
    described: list[dict[str, Any]] = []
    for arm in arms:
        requests = [
            {"request": r, **({"tokens": _tokens(trace, arm, r.index)} if tokens else {})}
            for r in trace.requests(arm)
            if request is None or r.index == request
        ]
        described.append({"label": arm.label, "arm": arm, "end": trace.end(arm), "requests": requests})
    return {
        "format": trace.format_version,
        "writer": trace.writer,
        "episode": trace.episode,
        "arms": described,
        "losses": trace.losses,
    }


def _tokens(trace: TraceReader, arm: Arm, request: int) -> dict[str, Any]:
    """The columns; null where one was not observed. Fingerprints as 32 hexadecimal digits."""
    path, alternatives = trace.path(arm, request), trace.alternatives(arm, request)
    rows: dict[str, Any] = {
        "ids": path.token_ids.tolist(),
        "flags": path.flags.tolist(),
        "values": None if path.chosen_values is None else path.chosen_values.tolist(),
        "log_sum_exp": None if path.log_sum_exp is None else path.log_sum_exp.tolist(),
        "fingerprints": None,
        "alternatives": None,
    }
    if path.fingerprints is not None:
        rows["fingerprints"] = [f"{high:016x}{low:016x}" for low, high in path.fingerprints.tolist()]
    if alternatives is not None:
        rows["alternatives"] = [
            {"ids": ids[:count], "values": values[:count]}
            for ids, values, count in zip(
                alternatives.ids.tolist(),
                alternatives.values.tolist(),
                alternatives.counts.tolist(),
                strict=True,
            )
        ]
    return rows
