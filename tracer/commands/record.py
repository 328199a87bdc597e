"""``cachetrace record``: run an agent on an engine and write what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.commands.engine_options import with_engine_options
from tracer.commands.shared_options import CarryOver, Logits, Quiet, Sentinel

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

HELP = """Record one episode (or a folder of them) from a real engine.

\b
Examples:
  cachetrace record -o office.msgpack            # embedded engine, default model, built-in task
  cachetrace record --workload chat --file talks.jsonl -o talks/
  cachetrace record --model qwen.gguf --agent model --keep-states -o office.msgpack
  cachetrace record --resume -o office.msgpack   # take up a recording that was stopped
  cachetrace record --proxy 127.0.0.1:8900 --url http://127.0.0.1:8080 -o runs/ -- python my_agent.py
"""


def register(app: typer.Typer) -> None:
    """Add ``record``."""
    app.command("record", help=HELP)(record)


@with_engine_options
def record(
    *,
    choice: EngineChoice,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND …]", help="With --proxy: the agent to run and record."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PATH", help="Trace file; a folder for several episodes."),
    ] = None,
    workload: Annotated[str, typer.Option(metavar="NAME", help="office, chat, bfcl or gsm8k.")] = "office",
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Workload chat: conversations, one JSON object a line."),
    ] = None,
    subset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Workload bfcl: paper (default), all or cpu8.")
    ] = None,
    turns: Annotated[int | None, typer.Option(min=1, help="Only the first N user turns.")] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only the first N episodes.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="WHO", help="model, or oracle: the transcript's own answers go into the history."
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="ids (default): generated ids stay; messages: re-tokenized."),
    ] = None,
    state: Annotated[
        str, typer.Option(metavar="STATE", help="Cache state: warm, no-prompt-cache, cold or as-served.")
    ] = "warm",
    priming: Annotated[
        str | None, typer.Option(metavar="HOW", help="own (default of warm), self or prompt-only.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="New tokens a request.")] = 48,
    seed: Annotated[int, typer.Option(help="Sent with every request.")] = 42,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Above 0 the trace is marked and gives no rates.")
    ] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, max=255, help="Alternatives kept at each position.")] = 20,
    logits: Logits = "top",
    keep_states: Annotated[
        bool, typer.Option("--keep-states", help="Keep the cache states met, for snapshot replays.")
    ] = False,
    carry_over: CarryOver = False,
    sentinel: Sentinel = False,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Listen here and record what any agent sends to --url."),
    ] = None,
    episode: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --proxy: all requests are this one episode.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="With --proxy: store no text of prompts and answers.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace trace files that exist.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Take up what was stopped.")] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was recorded as JSON lines.")] = False,
) -> None:
    """Wire the options to a ``RecordRun``; its help text is ``HELP``."""
    if proxy is not None:
        from tracer.commands.record_proxy import record_through_proxy

        record_through_proxy(choice, proxy, output, command or [], episode, top_k, redact=redact, quiet=quiet)
        return
    _refuse_without_proxy(command, episode, redact=redact)
    from tracer.engines.registry import preload

    preload(choice)
    from tracer.record_run import RecordRun, WorkloadWish

    wish = WorkloadWish.parse(
        name=workload, file=file, subset=subset, turns=turns, first=first, agent=agent, history=history
    )
    run = RecordRun.parse(
        state=state,
        priming=priming,
        max_new_tokens=max_new_tokens,
        seed=seed,
        temperature=temperature,
        top_k=top_k,
        logits=logits,
        keep_states=keep_states,
        carry_over=carry_over,
        sentinel=sentinel,
        force=force,
        resume=resume,
        quiet=quiet,
    )
    for recorded in run.record(choice, wish, output):
        typer.echo(recorded.as_json() if as_json else recorded.path)


def _refuse_without_proxy(command: list[str] | None, episode: str | None, *, redact: bool) -> None:
    from tracer.errors import UsageError

    if command:
        raise UsageError(f"a command ({command[0]}) is run only with --proxy HOST:PORT --url UPSTREAM.")
    if episode is not None or redact:
        raise UsageError("--episode and --redact belong to --proxy.")
