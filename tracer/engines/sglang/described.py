"""The effective configuration of a running SGLang server, from what it says about itself."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tracer.engines.http.endpoint import Endpoint
from tracer.engines.weight_format import effective_weight_format
from tracer.episode import EngineInfo

ENGINE = "sglang"
_MOVES_NUMBERS = (
    "attention_backend",
    "sampling_backend",
    "enable_deterministic_inference",
    "dtype",
    "quantization",
    "tp_size",
    "chunked_prefill_size",
    "disable_cuda_graph",
    "speculative_algorithm",
)


def read_settings(endpoint: Endpoint) -> dict[str, Any]:
    """Every flag of the server, under the route's present or former name; empty when it has neither."""
    for path in ("/get_server_info", "/server_info"):
        reply = endpoint.get(path)
        said = reply.json() if reply.ok else None
        if isinstance(said, dict) and said:
            return said
    return {}


def describe(settings: dict[str, Any]) -> EngineInfo:
    """Everything known that can move a number."""
    off = settings.get("disable_radix_cache")
    info = EngineInfo(
        engine=ENGINE,
        version=_text(settings, "version"),
        model_name=_text(settings, "served_model_name") or _text(settings, "model_path"),
        weight_format=_text(settings, "dtype"),
        kv_type_k=_text(settings, "kv_cache_dtype"),
        kv_type_v=_text(settings, "kv_cache_dtype"),
        context_tokens=_number(settings, "context_length"),
        prefix_cache=None if not isinstance(off, bool) else not off,
        prompt_cache_bytes=None if settings.get("enable_hierarchical_cache") is not False else 0,
        cache_block_tokens=_number(settings, "page_size"),
        flags={name: str(settings[name]) for name in _MOVES_NUMBERS if settings.get(name) is not None},
    )
    return replace(info, weight_format=effective_weight_format(info))


def _text(settings: dict[str, Any], name: str) -> str | None:
    value = settings.get(name)
    return value if isinstance(value, str) and value else None


def _number(settings: dict[str, Any], name: str) -> int | None:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
