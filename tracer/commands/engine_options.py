"""The engine options, once for every command that opens an engine.

``@with_engine_options`` adds them to a command and hands it one ``choice: EngineChoice``, made
from the command line, the environment and the settings file in that order.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer


def _option(name: str, kind: Any, flag: str, text: str, metavar: str | None = None) -> inspect.Parameter:
    info = typer.Option(flag, help=text, metavar=metavar, show_default=False)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )


_PARAMETERS = (
    _option(
        "engine", str, "--engine", "llama (default), llama-server, vllm, sglang, openai or fake.", "NAME"
    ),
    _option("model", str, "--model", "Model file; without it the small default model is used.", "FILE"),
    _option("url", str, "--url", "A running server to attach to.", "URL"),
    _option("server_bin", str, "--server-bin", "A server program to launch.", "FILE"),
    _option("server_args", list[str], "--server-arg", "One more argument for it; can be repeated.", "ARG"),
    _option("served_model", str, "--served-model", "Model name to ask a server for.", "NAME"),
    _option("context_tokens", int, "--context", "Context in tokens.", "TOKENS"),
    _option("threads", int, "--threads", "CPU threads.", "N"),
    _option("batch_tokens", int, "--batch", "Tokens per logical batch.", "TOKENS"),
    _option("ubatch_tokens", int, "--ubatch", "Tokens per physical batch.", "TOKENS"),
    _option("gpu_layers", int, "--gpu-layers", "Layers on the GPU; 0 = CPU.", "N"),
    _option("flash_attention", str, "--flash-attention", "auto (default), on or off.", "WHEN"),
    _option("kv_type", str, "--kv-type", "f16 (default), f32, q8_0 or q4_0.", "TYPE"),
    _option("prompt_cache_mib", int, "--cache-ram", "Size of the second cache layer in MiB.", "MIB"),
    _option("timeout_s", float, "--timeout", "Longest wait for one answer of a server.", "SECONDS"),
    _option("fake_script", str, "--fake-script", "Script of the engine fake (for tests).", "FILE"),
)


def with_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the engine options in place of its parameter ``choice``."""
    # The type of ``choice`` need not be imported by a command just to show its help.
    own = inspect.signature(command, eval_str=True, locals={"EngineChoice": object})
    names = [parameter.name for parameter in _PARAMETERS]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        from tracer.settings import engine_choice

        given = {name: values.pop(name) for name in names}
        given["server_args"] = tuple(given["server_args"]) if given["server_args"] else None
        command(choice=engine_choice(given), **values)

    parameters = [p for p in own.parameters.values() if p.name != "choice"]
    positional = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    named = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    signature = own.replace(parameters=[*positional, *named, *_PARAMETERS])
    run.__signature__ = signature  # type: ignore[attr-defined]  # what Typer reads
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    del run.__wrapped__  # else Typer would look through to the command's own signature
    return run
