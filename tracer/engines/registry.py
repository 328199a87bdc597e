"""From a choice of engine to an engine. Every adapter is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.errors import EngineMissing, UsageError

_OPENERS = {
    "llama": ("tracer.engines.llama", "open_llama"),
    "fake": ("tracer.engines.fake", "open_fake"),
    "llama-server": ("tracer.engines.llama_server", "open_llama_server"),
    "vllm": ("tracer.engines.vllm", "open_vllm"),
    "openai": ("tracer.engines.openai", "open_openai"),
    "sglang": ("tracer.engines.sglang", "open_sglang"),
}

IN_PROCESS = ("llama", "fake")
"""Engines that attach to nothing."""


def preload(choice: EngineChoice) -> None:
    """Load the native library of an engine that runs in this process.

    To be called before anything that imports numpy: on one GPU host the library crashed inside
    the C++ regex code when numpy's libstdc++ had come first.
    """
    if choice.engine == "llama":
        from tracer.engines.llama.library import load_library

        load_library()


def open_engine(choice: EngineChoice) -> Engine:
    """Open the engine that was chosen.

    Raises ``EngineMissing`` when its library, binary, model or adapter is not there, ``UsageError``
    when it was told to attach to a server and runs in this process.
    """
    if choice.url is not None and choice.engine in IN_PROCESS:
        raise UsageError(
            f"The engine {choice.engine} runs in this process and attaches to no server; "
            "with --url choose --engine llama-server, vllm, sglang or openai."
        )
    module, opener = _OPENERS[choice.engine]
    if find_spec(module) is None:
        raise EngineMissing(
            f"This version of cachetrace cannot reach the engine {choice.engine!r} yet; "
            "choose another one with --engine, for instance --engine llama."
        )
    preload(choice)
    return cast(Engine, getattr(import_module(module), opener)(choice))
