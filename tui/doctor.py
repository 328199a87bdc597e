"""What ``cachetrace doctor`` finds out: environment, engine, what can be seen and controlled, layers.

Nothing is generated and no cache of a server is touched: a server is only asked what it is, a model
is loaded and closed again.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tracer.episode import Capabilities, EngineInfo
from tracer.errors import UsageError
from tracer.resolved import FLASH_ATTENTION

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

_OBSERVES = (
    ("token_ids", "token ids"),
    ("chosen_logprob", "value of the chosen token"),
    ("full_row", "whole rows (bit identity by fingerprint)"),
    ("cached_tokens", "cached tokens per request"),
)
_CONTROLS = (
    ("reset", "emptying every cache layer"),
    ("disable_per_request", "no cache, per request"),
    ("snapshot", "saving and restoring a cache state"),
    ("prompt_cache", "the prompt cache on and off"),
    ("forced_decode", "decoding given tokens (ways forced, priming lockstep)"),
)
_MUST_STAY = (
    ("model_hash", "model file"),
    ("weight_format", "weights"),
    ("template_hash", "chat template"),
    ("build", "build"),
    ("device", "device"),
    ("device_features", "device features"),
    ("gpu_layers", "layers on the GPU"),
    ("threads", "threads"),
    ("threads_batch", "threads for prompts"),
    ("batch_tokens", "batch"),
    ("ubatch_tokens", "ubatch"),
    ("flash_attention", "flash attention"),
    ("kv_type_k", "K type"),
    ("kv_type_v", "V type"),
    ("context_tokens", "context"),
    ("slots", "slots"),
    ("logprobs_mode", "logprobs mode"),
)
_MOVES_NUMBERS = (
    "OMP_NUM_THREADS",
    "GGML_",
    "LLAMA_",
    "VLLM_BATCH_INVARIANT",
    "OPENBLAS_",
    "MKL_",
    "CUDA_VISIBLE",
)
_PACKAGES = ("llama-cpp-python", "numpy", "textual", "httpx")


class Finding(Struct, frozen=True):
    """One section of the answer: a name and lines of free text (to be cleaned when printed)."""

    name: str
    lines: tuple[str, ...]


def examine(target: str | None, choice: EngineChoice) -> tuple[Finding, ...]:
    """All sections. ``target`` is a URL, a model file, or None for the engine that the user chose.

    Raises ``EngineMissing`` when nobody answers at a URL or a model cannot be loaded.
    """
    sections = [environment(choice)]
    url = target if target is not None and _is_url(target) else choice.url if target is None else None
    if url is not None:
        return (*sections, *_server(url))
    if target is not None:
        if not Path(target).is_file():
            raise UsageError(
                f"{target} is neither a model file nor a URL that starts with http:// or https://."
            )
        choice = replace(choice, model=target, url=None)
    return (*sections, *_opened(choice))


def environment(choice: EngineChoice) -> Finding:
    """The machine, the installed packages, the user's settings."""
    from tracer.model_store import MODEL_FILE, model_folder
    from tracer.settings import settings_path

    model = "there" if (model_folder() / MODEL_FILE).is_file() else "fetched when it is first needed"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    installed = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    lines = [
        f"cachetrace {_version('cachetrace')}, Python {sys.version.split()[0]}, "
        f"{platform.system()} {platform.machine()}, {cores} CPU cores",
        f"installed: {installed}",
        f"settings file: {settings_path()} ({'there' if settings_path().exists() else 'none'})",
        f"default model: {model}",
        f"engine chosen: {choice.engine}",
    ]
    lines += [
        f"{name}={value}  moves numbers: keep it the same"
        for name, value in sorted(os.environ.items())
        if name.startswith(_MOVES_NUMBERS)
    ]
    return Finding("environment", tuple(lines))


def _server(url: str) -> Iterator[Finding]:
    from tracer.engines.http.recognise import recognise

    found = recognise(url)
    name = found.engine if found.version is None else f"{found.engine} {found.version}"
    yield Finding("engine", (f"{name} at {found.url}", *_model(found.info)))
    yield Finding("observe", found.observes or ("nothing beside the text",))
    yield Finding("control", found.controls or ("nothing: recordings are as-served",))
    yield Finding("states", _states(found.capabilities))
    yield Finding("cache layers", tuple(f"{layer}: {how}" for layer, how in found.layers.items()))
    yield from _comparable(found.info)
    if found.warnings:
        yield Finding("not comparable", found.warnings)
    if found.flags_to_add:
        yield Finding("flags to add", found.flags_to_add)
    flag = found.engine if found.engine in ("llama-server", "vllm", "sglang") else "openai"
    yield Finding("next", (f"cachetrace record --engine {flag} --url {found.url} -o episode.msgpack",))


def _opened(choice: EngineChoice) -> Iterator[Finding]:
    from tracer.engines.registry import open_engine

    engine = open_engine(choice)
    try:
        info, can = engine.info, engine.capabilities
    finally:
        engine.close()
    name = info.engine if info.version is None else f"{info.engine} {info.version}"
    yield Finding("engine", (name, *_model(info)))
    yield Finding(
        "observe", _words(_OBSERVES, can, f"the {can.top_k} best alternatives" if can.top_k else "")
    )
    yield Finding("control", _words(_CONTROLS, can, ""))
    yield Finding("states", _states(can))
    yield Finding("cache layers", _layers(info, can))
    yield from _comparable(info)
    warnings = tuple(_warnings(info))
    if warnings:
        yield Finding("not comparable", warnings)
    yield Finding("next", ("cachetrace record -o episode.msgpack   with the same engine options",))


def _model(info: EngineInfo) -> tuple[str, ...]:
    facts = [info.model_name, info.weight_format, info.architecture]
    named = ", ".join(fact for fact in facts if fact)
    return (f"model: {named}",) if named else ()


def _words(table: tuple[tuple[str, str], ...], can: Capabilities, more: str) -> tuple[str, ...]:
    found = [words for field, words in table if getattr(can, field)]
    found += [more] if more else []
    missing = [words for field, words in table if not getattr(can, field)]
    lines = [", ".join(found) or "nothing"]
    return tuple(lines + ([f"not: {', '.join(missing)}"] if missing else []))


def _states(can: Capabilities) -> tuple[str, ...]:
    return (", ".join(can.states) or "as-served only",)


def _layers(info: EngineInfo, can: Capabilities) -> tuple[str, ...]:
    first = {True: "on", False: "off", None: "switched by each state"}[info.prefix_cache]
    size = info.prompt_cache_bytes
    second = "switched by each state" if can.prompt_cache else "none"
    if size:
        second = f"{size / 2**20:.0f} MiB"
    elif size == 0:
        second = "off until a state wants it" if can.prompt_cache else "off"
    return (f"prefix cache: {first}, blocks of {can.cache_block_tokens} tokens", f"prompt cache: {second}")


def _comparable(info: EngineInfo) -> Iterator[Finding]:
    """What must be the same in two runs, with its value now."""
    facts = [(words, getattr(info, field)) for field, words in _MUST_STAY]
    lines = [f"{words}: {value}" for words, value in facts if value is not None]
    lines += [f"{name}: {value}" for name, value in info.flags.items()]
    unknown = [words for words, value in facts if value is None]
    if unknown:
        lines.append(f"not known: {', '.join(unknown)}")
    yield Finding("keep the same", tuple(lines))


def _warnings(info: EngineInfo) -> Iterator[str]:
    if info.flash_attention == "auto" and FLASH_ATTENTION not in info.flags:
        yield "flash attention is chosen by the library; fix it with --flash-attention on or off"
    if info.threads is None:
        yield "the number of threads is not known; fix it with --threads"
    elif info.threads != len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()):
        yield f"{info.threads} threads on another number of cores: leave one process to one set of cores"
    if info.gpu_layers:
        yield "layers on the GPU: another card or driver gives other numbers"


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
