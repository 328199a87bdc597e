"""Names of engine configurations: short, and different whenever something that moves numbers differs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xxhash import xxh3_64_hexdigest

from stats.report.effective_settings import settings_of, settings_text
from tracer.engines.weight_format import effective_weight_format
from tracer.episode import Arm

_BITS = re.compile(r"(\d+)")

Key = tuple[str | None, ...]

_SHOWN = 16
"""Characters of a value in a name."""

_NAMED = ("engine", "version", "model_name", "weight_format")
_TELLING = (
    ("model_hash", "model"),
    ("model_bytes", "model bytes"),
    ("build", "build"),
    ("device", "device"),
    ("device_features", "device features"),
    ("gpu_layers", "GPU layers"),
    ("threads", "threads"),
    ("threads_batch", "prompt threads"),
    ("batch_tokens", "batch"),
    ("ubatch_tokens", "ubatch"),
    ("flash_attention", "flash attention"),
    ("kv_type_k", "K"),
    ("kv_type_v", "V"),
    ("context_tokens", "context"),
    ("slots", "slots"),
    ("cache_block_tokens", "block"),
    ("logprobs_mode", "logprobs"),
    ("template_hash", "template"),
)
"""Facts outside the name that make two configurations differ. Cache settings are not among them:
they differ between the arms of one episode, and are what is compared."""


def configuration_key(arm: Arm) -> Key:
    """What must be equal for two arms to belong to one configuration; the last place holds the settings."""
    engine = arm.engine
    known = {"weight_format": effective_weight_format(engine)}
    fields = (*_NAMED, *(field for field, _ in _TELLING))
    values = (known.get(field, getattr(engine, field)) for field in fields)
    return (*(None if value is None else str(value) for value in values), settings_text(arm))


def configuration_settings(key: Key) -> dict[str, str]:
    """Flags, arguments and environment variables of a configuration, by name."""
    return settings_of(key[-1])


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
        values = {other[place] for other in group}
        if len(values) > 1:
            said.append(f"{label} {_short(key[place], values)}")
    settings = [configuration_settings(other) for other in group]
    own = configuration_settings(key)
    for name in sorted({name for one in settings for name in one}):
        values = {one.get(name) for one in settings}
        if len(values) > 1:
            said.append(f"{name}={_short(own.get(name), values)}")
    return ", ".join(said)


def _short(value: str | None, values: set[str | None]) -> str:
    """The value, cut where it stays different from the others; a long one by its hash."""
    if value is None:
        return "–"
    starts = {other and other.removeprefix("sha256:")[:_SHOWN] for other in values}
    if len(starts) == len(values):
        return value.removeprefix("sha256:")[:_SHOWN]
    return xxh3_64_hexdigest(value.encode())[:8]
