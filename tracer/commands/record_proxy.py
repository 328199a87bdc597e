"""``cachetrace record --proxy``: the recording proxy, alone or around a command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracer.errors import EngineMissing, UsageError

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice


def record_through_proxy(
    choice: EngineChoice,
    bind: str,
    output: Path | None,
    command: list[str],
    episode: str | None,
    top_k: int,
    *,
    redact: bool,
    quiet: bool,
) -> None:
    """Serve until the command ends or Ctrl-C; print the traces; end as the command ended."""
    if choice.url is None:
        raise UsageError("--proxy needs the server to pass requests on to: --url http://HOST:PORT.")
    if output is None:
        raise UsageError("--proxy writes one trace an episode: name a folder with -o DIR.")
    try:
        from tracer.proxy.serve import ProxyRun, run_proxy
    except ModuleNotFoundError as error:
        raise EngineMissing(
            f"the proxy needs {error.name}: pip install 'cachetrace[proxy]' brings it."
        ) from error
    from tracer.recording import this_command

    def say(sentence: str) -> None:
        if not quiet:
            typer.echo(f"cachetrace: {sentence}", err=True)

    result = run_proxy(
        ProxyRun(
            bind=bind,
            upstream_url=choice.url,
            folder=output,
            command=tuple(command),
            episode=episode,
            top_k=top_k,
            redact=redact,
            timeout_s=choice.timeout_s,
            recorded_command=this_command(),
        ),
        say,
    )
    say(f"recorded {result.requests} requests; traces written: {len(result.files)}")
    for path in result.files:
        typer.echo(path)
    if result.exit_code:
        sys.exit(result.exit_code)
