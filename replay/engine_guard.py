"""Is the engine at hand the one that recorded? Settings that can be taken over, and the guard.

A trace chooses nothing that is launched, loaded or contacted. It may suggest plain numbers (threads,
batch sizes, context), within bounds, where the user gave none; the guard then checks the rest.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from tracer.clean_text import clean
from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.episode import Arm, EngineInfo
from tracer.errors import UsageError
from tracer.resolved import resolved_otherwise, side_by_side

_LARGEST_BATCH = 1 << 14
_LARGEST_CONTEXT = 1 << 17
_HASH_SHOWN = len("sha256:") + 12

MUST_AGREE = (
    ("model_hash", "model"),
    ("template_hash", "chat template"),
    ("threads", "threads"),
    ("threads_batch", "threads for prompts"),
    ("batch_tokens", "batch size"),
    ("ubatch_tokens", "ubatch size"),
    ("kv_type_k", "KV type of keys"),
    ("kv_type_v", "KV type of values"),
    ("flash_attention", "flash attention"),
    ("device", "device"),
    ("gpu_layers", "GPU layers"),
)
"""Fields of ``EngineInfo`` that move numbers by themselves, and their names for people."""


def settings_as_recorded(choice: EngineChoice, recorded: EngineInfo) -> EngineChoice:
    """The choice with the recorded numbers in place of settings that the user left open."""
    return replace(
        choice,
        threads=_taken(choice.threads, recorded.threads, os.cpu_count() or 1),
        batch_tokens=_taken(choice.batch_tokens, recorded.batch_tokens, _LARGEST_BATCH),
        ubatch_tokens=_taken(choice.ubatch_tokens, recorded.ubatch_tokens, _LARGEST_BATCH),
        context_tokens=_taken(choice.context_tokens, recorded.context_tokens, _LARGEST_CONTEXT),
    )


def engine_mismatches(recorded: EngineInfo, now: EngineInfo) -> tuple[str, ...]:
    """What differs between the recording's engine and this one, in words."""
    settings = ((name, getattr(recorded, field), getattr(now, field)) for field, name in MUST_AGREE)
    return tuple(
        f"{name} ({_said(before)} when recorded, {_said(after)} now)"
        for name, before, after in (*settings, *resolved_otherwise(recorded, now))
        if before != after
    )


def check_engine(recorded: Arm, engine: Engine, *, anyway: bool) -> tuple[str, ...]:
    """The mismatches; raises ``UsageError`` when there are any and ``anyway`` is not set."""
    found = engine_mismatches(recorded.engine, engine.info)
    if found and not anyway:
        raise UsageError(
            f"this engine is not the one that recorded: {'; '.join(found)}. Give the same model and "
            "settings, or --anyway to replay under another configuration."
        )
    return found


def same_configuration(a: EngineInfo, b: EngineInfo) -> bool:
    """Whether two descriptions differ in nothing but the cache layers, which the state decides."""
    neutral = {"prefix_cache": None, "prompt_cache_bytes": None}
    a, b = side_by_side(a, b)
    return replace(a, **neutral) == replace(b, **neutral)


def _taken(given: int | None, recorded: int | None, largest: int) -> int | None:
    if given is not None or recorded is None or not 0 < recorded <= largest:
        return given
    return recorded


def _said(value: object) -> str:
    if value is None:
        return "not known"
    text = clean(str(value))
    return text[:_HASH_SHOWN] + "…" if text.startswith("sha256:") else text
