"""The effective configuration of a running vLLM server, from what it says about itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.prometheus import Sample, read_samples, total
from tracer.engines.weight_format import effective_weight_format
from tracer.episode import EngineInfo

ENGINE = "vllm"
QUERIES = "vllm:prefix_cache_queries_total"
HITS = "vllm:prefix_cache_hits_total"
_CONFIG = "vllm:cache_config_info"


@dataclass(frozen=True, slots=True)
class VllmFacts:
    """What the server's own routes say. None = the route is off, or the field is not there."""

    version: str | None = None
    model: str | None = None
    root: str | None = None
    context_tokens: int | None = None
    cache: dict[str, str] = field(default_factory=dict)
    """Labels of ``cache_config_info``."""
    metrics: bool = False
    can_reset: bool = False
    """``/reset_prefix_cache`` is there (development mode)."""
    can_skip_reading: bool = False
    """``/inference/v1/generate`` is there and open (scale-out)."""
    server_info: str = ""
    """The raw text of ``/server_info`` (development mode)."""

    @property
    def prefix_cache(self) -> bool | None:
        """Whether prefix caching is on."""
        said = self.cache.get("enable_prefix_caching")
        return {"True": True, "False": False}.get(said or "")

    @property
    def block_tokens(self) -> int | None:
        """Tokens of a cache block: only whole blocks are reused."""
        said = self.cache.get("block_size", "")
        return int(said) if said.isdigit() else None

    @property
    def offloading(self) -> bool:
        """Whether a second layer (KV offloading or a connector) is configured."""
        sized = self.cache.get("kv_offloading_size", "None") not in ("None", "0", "0.0", "")
        return (
            sized
            or re.search(r"kv_connector['\"]?\s*[:=]\s*['\"]?[A-Za-z]\w+Connector", self.server_info)
            is not None
        )

    def setting(self, name: str) -> str | None:
        """A setting out of ``/server_info``, whatever form it is printed in."""
        match = re.search(rf"{name}['\"]?\s*[:=]\s*['\"]?([\w.\-/]+)", self.server_info)
        return match.group(1) if match else None


def read_facts(endpoint: Endpoint) -> VllmFacts:
    """Ask the server's describing routes; nothing is generated and no cache is touched."""
    version = endpoint.get("/version").json()
    models = endpoint.get("/v1/models").json()
    served = models.get("data") if isinstance(models, dict) else None
    first = served[0] if isinstance(served, list) and served and isinstance(served[0], dict) else {}
    samples = read_metrics(endpoint)
    info = endpoint.get("/server_info?config_format=json")
    context = first.get("max_model_len")
    return VllmFacts(
        version=_text(version.get("version")) if isinstance(version, dict) else None,
        model=_text(first.get("id")),
        root=_text(first.get("root")),
        context_tokens=context if isinstance(context, int) else None,
        cache=next((sample.labels for sample in samples or () if sample.name == _CONFIG), {}),
        metrics=samples is not None and total(samples, QUERIES) is not None,
        # Asking with the wrong method tells whether the route exists, and empties nothing.
        can_reset=endpoint.get("/reset_prefix_cache").status == 405,
        can_skip_reading=endpoint.post("/inference/v1/generate", {}).status in (400, 422),
        server_info=info.body.decode("utf-8", "replace") if info.ok else "",
    )


def read_metrics(endpoint: Endpoint) -> list[Sample] | None:
    """The metrics page, None when there is none."""
    reply = endpoint.get("/metrics")
    return read_samples(reply.body.decode("utf-8", "replace")) if reply.ok else None


def describe(facts: VllmFacts) -> EngineInfo:
    """Everything known that can move a number."""
    flags = {
        name: value
        for name in (
            "enforce_eager",
            "tensor_parallel_size",
            "kv_cache_dtype",
            "quantization",
            "attention_backend",
        )
        if (value := facts.setting(name)) is not None
    }
    if batch_invariant := facts.setting("VLLM_BATCH_INVARIANT"):
        flags["VLLM_BATCH_INVARIANT"] = batch_invariant
    if (algorithm := facts.cache.get("prefix_caching_hash_algo")) is not None:
        flags["prefix_caching_hash_algo"] = algorithm
    kv_type = facts.cache.get("cache_dtype")
    info = EngineInfo(
        engine=ENGINE,
        version=facts.version,
        model_name=facts.model,
        weight_format=_dtype(facts),
        kv_type_k=kv_type,
        kv_type_v=kv_type,
        context_tokens=facts.context_tokens,
        prompt_cache_bytes=None if not facts.cache or facts.offloading else 0,
        prefix_cache=facts.prefix_cache,
        cache_block_tokens=facts.block_tokens,
        logprobs_mode=facts.setting("logprobs_mode"),
        flags=flags,
    )
    return replace(info, weight_format=effective_weight_format(info))


def _dtype(facts: VllmFacts) -> str | None:
    match = re.search(r"['\"\s,(]dtype['\"]?\s*[:=]\s*['\"]?(?:torch\.)?(\w+)", facts.server_info)
    return match.group(1) if match else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
