"""Which server answers at an address: its engine, version, layers, and what it lets us see and do.

Only describing routes are asked. Nothing is generated, and no cache is touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from tracer.engines.http.endpoint import Endpoint, clean_url
from tracer.episode import CacheState, Capabilities, EngineInfo

DESCRIBING_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Recognised:
    """A server and what is known about it without asking it to generate."""

    url: str
    engine: str
    """``llama-server``, ``vllm``, ``sglang``, ``ollama``, ``lm-studio``, or ``openai`` for anything else."""
    version: str | None
    info: EngineInfo
    capabilities: Capabilities
    observes: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    layers: dict[str, str] = field(default_factory=dict)
    """Cache layer → ``on``, ``off``, a size, or ``unknown``."""
    flags_to_add: tuple[str, ...] = ()
    """What to start the server with so that more can be seen or controlled, and why."""
    warnings: tuple[str, ...] = ()
    """Settings known to break reproducibility."""


def recognise(
    url: str, *, api_key: str | None = None, transport: httpx.BaseTransport | None = None
) -> Recognised:
    """Ask the server at ``url`` what it is. Raises ``EngineMissing`` when nobody answers there."""
    base = clean_url(url).removesuffix("/v1")
    endpoint = Endpoint(base, timeout_s=DESCRIBING_TIMEOUT_S, api_key=api_key, transport=transport)
    try:
        models = _object(endpoint, "/v1/models")
        owner = _owner(models)
        props = _object(endpoint, "/props")
        if owner == "llamacpp" or "build_info" in props or "default_generation_settings" in props:
            return _llama_server(endpoint)
        if owner == "vllm":
            return _vllm(endpoint)
        if owner == "sglang" or "sglang" in str(models)[:2000].lower():
            return _sglang(endpoint)
        ollama = _object(endpoint, "/api/version").get("version")
        if isinstance(ollama, str):
            return _plain(endpoint, "ollama", ollama, models)
        if owner in ("organization_owner", "organization-owner") or _object(endpoint, "/api/v0/models"):
            return _plain(endpoint, "lm-studio", None, models)
        return _plain(endpoint, "openai", None, models)
    finally:
        endpoint.close()


def _llama_server(endpoint: Endpoint) -> Recognised:
    from tracer.engines.llama_server.described import describe, read_facts, speculative

    facts = read_facts(endpoint)
    info = describe(facts)
    slots = info.slots or 1
    add = []
    if facts.slots_off is not None:
        add.append("--slots: so that requests of other clients can be noticed")
    if slots > 1:
        add.append(
            "--parallel 1: so that the slot, and with it the cached state, is not chosen by the server"
        )
    warnings = []
    if slots > 1:
        warnings.append(f"{slots} slots: requests at the same time share batches, which moves numbers")
    kind = speculative(facts)
    if kind is not None:
        warnings.append(f"speculative decoding ({kind}): drafted tokens come without numbers of their own")
    if "modalities" in info.flags:
        warnings.append("a projector is loaded: slots cannot be saved and restored")
    if "lora" in info.flags:
        warnings.append("adapters are loaded: the weights are more than the model file")
    return Recognised(
        url=endpoint.url,
        engine="llama-server",
        version=info.build,
        info=info,
        capabilities=Capabilities(
            token_ids=True,
            chosen_logprob=True,
            top_k=255,
            cached_tokens=True,
            disable_per_request=True,
            states=(CacheState.COLD, CacheState.WARM),
        ),
        observes=(
            "token ids",
            "logprobs of the chosen token and the best others",
            "cached tokens per request",
        ),
        controls=("no cache, per request (cache_prompt)",),
        layers={
            "prefix cache (slots)": "unknown: the server does not say; the default is on",
            "prompt cache (host memory)": "unknown: the server does not say; the default is on, 8192 MiB",
        },
        flags_to_add=tuple(add),
        warnings=tuple(warnings),
    )


def _vllm(endpoint: Endpoint) -> Recognised:
    from tracer.engines.vllm.capabilities import capabilities_of
    from tracer.engines.vllm.described import describe, read_facts

    facts = read_facts(endpoint)
    info = describe(facts)
    add = ["--enable-prompt-tokens-details: so that every answer counts its cached tokens (unless it is set)"]
    if not facts.can_reset:
        add.append("VLLM_SERVER_DEV_MODE=1: so that the prefix cache can be emptied and the settings read")
    if not facts.can_skip_reading:
        add.append("--enable-scale-out: so that a request can skip the cache without emptying it")
    warnings = []
    if info.logprobs_mode not in (None, "raw_logprobs"):
        warnings.append(f"logprobs mode {info.logprobs_mode}: the numbers are not logprobs of the raw model")
    if info.flags.get("VLLM_BATCH_INVARIANT") in ("1", "true"):  # the variable, or the server's own word
        warnings.append(
            "batch-invariant mode: it repeats itself, yet a cache hit may still change the answer"
        )
    controls = ["no cache, per request (a fresh cache_salt)"]
    if facts.can_reset:
        controls.append("emptying the prefix cache (/reset_prefix_cache)")
    if facts.can_skip_reading:
        controls.append("no reading from the cache, per request (/inference/v1/generate)")
    return Recognised(
        url=endpoint.url,
        engine="vllm",
        version=info.version,
        info=info,
        capabilities=capabilities_of(facts),
        observes=("token ids", "logprobs of the chosen token and the best others")
        + (("cache counters (/metrics)",) if facts.metrics else ()),
        controls=tuple(controls),
        layers={
            "prefix cache": _on_off(facts.prefix_cache)
            + (f", blocks of {facts.block_tokens} tokens" if facts.block_tokens else ""),
            "KV offloading": "on" if facts.offloading else "off" if facts.cache else "unknown",
        },
        flags_to_add=tuple(add),
        warnings=tuple(warnings),
    )


def _sglang(endpoint: Endpoint) -> Recognised:
    from tracer.engines.sglang.described import describe, read_settings

    info = describe(read_settings(endpoint))
    return Recognised(
        url=endpoint.url,
        engine="sglang",
        version=info.version,
        info=info,
        capabilities=Capabilities(token_ids=True, chosen_logprob=True, top_k=20, cached_tokens=True),
        observes=("token ids", "logprobs", "cached tokens per request (native route)"),
        controls=("emptying the cache (/flush_cache)",),
        layers={"radix cache": _on_off(info.prefix_cache)},
        flags_to_add=("--enable-cache-report: so that the OpenAI routes count cached tokens too",),
    )


def _plain(endpoint: Endpoint, engine: str, version: str | None, models: dict[str, Any]) -> Recognised:
    names = [model.get("id") for model in models.get("data") or () if isinstance(model, dict)]
    known = [name for name in names if isinstance(name, str)]
    info = EngineInfo(engine="openai", version=version, model_name=known[0] if len(known) == 1 else None)
    if engine != "openai":
        info = EngineInfo(
            engine="openai", version=version, model_name=info.model_name, flags={"server": engine}
        )
    return Recognised(
        url=endpoint.url,
        engine=engine,
        version=version,
        info=info,
        capabilities=Capabilities(chosen_logprob=True, top_k=20, states=(CacheState.AS_SERVED,)),
        observes=("text", "logprobs and cached tokens where an answer brings them"),
        controls=(),
        layers={"caches": "unknown: this server does not say"},
        warnings=("no control over caches: such recordings are as-served and repeats may differ",),
    )


def _on_off(setting: bool | None) -> str:
    return "unknown" if setting is None else "on" if setting else "off"


def _object(endpoint: Endpoint, path: str) -> dict[str, Any]:
    reply = endpoint.get(path)
    parsed = reply.json() if reply.ok else None
    return parsed if isinstance(parsed, dict) else {}


def _owner(models: dict[str, Any]) -> str | None:
    served = models.get("data")
    first = served[0] if isinstance(served, list) and served else None
    return _text(first.get("owned_by")) if isinstance(first, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
