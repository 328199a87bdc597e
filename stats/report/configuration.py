"""Names of engine configurations: short, and different whenever something that moves numbers differs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tracer.episode import EngineInfo

_BITS = re.compile(r"(\d+)")

Key = tuple[str | None, ...]

_NAMED = ("engine", "version", "model_name", "weight_format")
_TELLING = (
    ("model_hash", "model"),
    ("build", "build"),
    ("device", "device"),
    ("gpu_layers", "GPU layers"),
    ("threads", "threads"),
    ("threads_batch", "prompt threads"),
    ("batch_tokens", "batch"),
    ("ubatch_tokens", "ubatch"),
    ("flash_attention", "flash attention"),
    ("kv_type_k", "K"),
    ("kv_type_v", "V"),
    ("context_tokens", "context"),
    ("logprobs_mode", "logprobs"),
    ("template_hash", "template"),
)
"""Facts outside the name that make two configurations differ. Cache settings are not among them:
they differ between the arms of one episode, and are what is compared."""


def configuration_key(engine: EngineInfo) -> Key:
    """What must be equal for two arms to belong to one configuration."""
    fields = (*_NAMED, *(field for field, _ in _TELLING))
    return tuple(None if getattr(engine, f) is None else str(getattr(engine, f)) for f in fields)


def configuration_names(keys: Iterable[Key]) -> dict[Key, str]:
    """A name for every configuration; facts are added only where two would bear the same name."""
    by_name: dict[str, list[Key]] = {}
    for key in dict.fromkeys(keys):
        by_name.setdefault(_short_name(key), []).append(key)
    names: dict[Key, str] = {}
    for name, group in by_name.items():
        for key in group:
            names[key] = name if len(group) == 1 else f"{name} · {_difference(key, group)}"
    return names


def nominal_bits(weight_format: str) -> int | None:
    """Bits that a format's name gives: 16 for F16 and bf16, 4 for Q4_K_M; None without a number."""
    found = _BITS.search(weight_format)
    return int(found.group(1)) if found else None


def model_without_format(model: str | None, weight_format: str | None) -> str | None:
    """A model's name without its weight format: files of one ladder differ in nothing else."""
    if model is None or not weight_format:
        return model
    bare = re.sub(re.escape(weight_format), "", model.removesuffix(".gguf"), flags=re.IGNORECASE)
    return re.sub(r"[-._ ]{2,}", "-", bare).strip("-._ ") or model


def _short_name(key: Key) -> str:
    engine, version, model, weights = key[: len(_NAMED)]
    served = engine if version is None else f"{engine} {version}"
    return " · ".join(part for part in (served, model_without_format(model, weights), weights) if part)


def _difference(key: Key, group: list[Key]) -> str:
    said = []
    for place, (_, label) in enumerate(_TELLING, start=len(_NAMED)):
        if len({other[place] for other in group}) > 1:
            value = key[place] or "–"
            said.append(f"{label} {value.removeprefix('sha256:')[:16]}")
    return ", ".join(said)
