"""The effective configuration of a running server, from what it says about itself.

Fields come and go between builds: everything is looked up with its type, and what is not there
stays None, which means unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tracer.engines.http.endpoint import Endpoint, Reply
from tracer.engines.http.prometheus import Sample, read_samples
from tracer.engines.llama_server.arguments import ServerSettings
from tracer.episode import EngineInfo
from tracer.errors import EngineError
from tracer.resolved import FLASH_ATTENTION

ENGINE = "llama-server"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the server's own routes say. Empty where a route is off or missing."""

    props: dict[str, Any] = field(default_factory=dict)
    slots: tuple[dict[str, Any], ...] = ()
    slots_off: str | None = None
    """Why the slots cannot be seen."""
    model: dict[str, Any] = field(default_factory=dict)
    """``meta`` of the served model."""
    metrics: tuple[Sample, ...] | None = None


def read_facts(endpoint: Endpoint) -> ServerFacts:
    """Ask the server's describing routes. Raises ``EngineMissing`` when nobody answers."""
    props = _object(endpoint.get("/props"))
    slots_reply = endpoint.get("/slots")
    slots = slots_reply.json() if slots_reply.ok else None
    off = None if isinstance(slots, list) else f"the route /slots answered with status {slots_reply.status}"
    metrics = endpoint.get("/metrics")
    page = metrics.body.decode("utf-8", "replace") if metrics.ok else None
    return ServerFacts(
        props=props,
        slots=tuple(slot for slot in slots if isinstance(slot, dict)) if isinstance(slots, list) else (),
        slots_off=off,
        model=_served_model(_object(endpoint.get("/v1/models"))),
        metrics=None if page is None else tuple(read_samples(page)),
    )


def describe(
    facts: ServerFacts,
    *,
    settings: ServerSettings | None = None,
    version: str | None = None,
    log: Sequence[str] = (),
    model_hash: str | None = None,
    prefix_cache: bool | None = None,
    prompt_cache_bytes: int | None = None,
) -> EngineInfo:
    """Everything known that can move a number; ``settings`` and ``log`` of a launched server only."""
    props = facts.props
    template = _text(props, "chat_template")
    defaults = props.get("default_generation_settings")
    context = _number(defaults, "n_ctx") if isinstance(defaults, dict) else None
    cpu_only = settings is not None and settings.gpu_layers == 0
    return EngineInfo(
        engine=ENGINE,
        version=version,
        build=_text(props, "build_info"),
        model_name=_file_name(_text(props, "model_path") or _text(props, "model_alias")),
        model_hash=model_hash,
        parameters=_number(facts.model, "n_params"),
        weight_format=_text(props, "model_ftype") or _text(facts.model, "ftype"),
        vocabulary_tokens=_number(facts.model, "n_vocab"),
        template_hash=None if template is None else f"sha256:{hashlib.sha256(template.encode()).hexdigest()}",
        kv_type_k=settings.kv_type if settings else None,
        kv_type_v=settings.kv_type if settings else None,
        context_tokens=context,
        device="cpu" if cpu_only else None,
        device_features=_cpu_features(log),
        gpu_layers=settings.gpu_layers if settings else None,
        threads=settings.threads if settings else None,
        threads_batch=settings.threads if settings else None,
        batch_tokens=settings.batch_tokens if settings else None,
        ubatch_tokens=settings.ubatch_tokens if settings else None,
        flash_attention=settings.flash_attention if settings else None,
        slots=_number(props, "total_slots"),
        prompt_cache_bytes=prompt_cache_bytes,
        prefix_cache=prefix_cache,
        cache_block_tokens=1,
        logprobs_mode="log-softmax of the raw logits",
        flags=_flags(facts, settings) | _logged_flags(log),
    )


def speculative(facts: ServerFacts) -> str | None:
    """The kind of speculative decoding that is on; None = off or unknown."""
    defaults = facts.props.get("default_generation_settings")
    params = defaults.get("params") if isinstance(defaults, dict) else None
    kind = _text(params, "speculative.types") if isinstance(params, dict) else None
    if kind not in (None, "none"):
        return kind
    return "on" if any(slot.get("speculative") is True for slot in facts.slots) else None


def _flags(facts: ServerFacts, settings: ServerSettings | None) -> dict[str, str]:
    flags = dict(settings.flags()) if settings else {}
    kind = speculative(facts)
    if kind is not None:
        flags["speculative"] = kind
    modalities = facts.props.get("modalities")
    if isinstance(modalities, dict) and any(modalities.values()):
        flags["modalities"] = ", ".join(sorted(name for name, on in modalities.items() if on))
    defaults = facts.props.get("default_generation_settings")
    params = defaults.get("params") if isinstance(defaults, dict) else None
    lora = params.get("lora") if isinstance(params, dict) else None
    if isinstance(lora, list) and lora:
        flags["lora"] = f"{len(lora)} adapters"
    return flags


_LOGGED = {
    "context checkpoints enabled,": "context_checkpoints",
    "resolve_fused_ops: Flash Attention": FLASH_ATTENTION,
}
"""What the server says about itself while it starts, and the name under which it is kept."""


def _logged_flags(log: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in log:
        for said, name in _LOGGED.items():
            _, here, rest = line.partition(said)
            if here:
                found[name] = rest.strip()[:80]
    return found


def _cpu_features(log: Sequence[str]) -> str | None:
    for line in log:
        _, found, features = line.partition("system_info:")
        if found:
            return features.strip()[:400]
    return None


def _served_model(models: dict[str, Any]) -> dict[str, Any]:
    served = models.get("data")
    first = served[0] if isinstance(served, list) and served else None
    meta = first.get("meta") if isinstance(first, dict) else None
    return meta if isinstance(meta, dict) else {}


def _object(reply: Reply) -> dict[str, Any]:
    parsed = reply.json() if reply.ok else None
    return parsed if isinstance(parsed, dict) else {}


def _text(source: dict[str, Any], key: str) -> str | None:
    value = source.get(key)
    return value if isinstance(value, str) and value else None


def _number(source: dict[str, Any], key: str) -> int | None:
    value = source.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _file_name(path: str | None) -> str | None:
    """The name without the folders of the server's disk."""
    return None if path is None else path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def require_llama_server(facts: ServerFacts, url: str) -> None:
    """Raise ``EngineError`` unless these are the facts of a llama.cpp server with one model."""
    if facts.props.get("role") == "router" or (not facts.props and not facts.model):
        raise EngineError(
            f"{url} is not a llama.cpp server with a loaded model; `cachetrace doctor {url}` says what it is."
        )
