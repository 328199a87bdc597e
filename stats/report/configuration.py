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
        if len(group) == 1:
            names[group[0]] = name
        else:
            names |= {key: f"{name} · {difference}" for key, difference in _differences(group).items()}
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


def _differences(group: list[Key]) -> dict[Key, str]:
    """What tells each configuration from the others that bear its name."""
    settings = {key: configuration_settings(key) for key in group}
    facts = {label: [key[place] for key in group] for place, (_, label) in enumerate(_TELLING, len(_NAMED))}
    said: dict[Key, list[str]] = {key: [] for key in group}
    for label, values in facts.items():
        for key, value in zip(group, _shortened(values), strict=True):
            if value is not None:
                said[key].append(f"{label} {value}")
    for name in sorted({name for one in settings.values() for name in one}):
        for key, value in zip(group, _shortened([settings[key].get(name) for key in group]), strict=True):
            if value is not None:
                said[key].append(f"{name}={value}")
    return {key: ", ".join(parts) for key, parts in said.items()}


def _shortened(values: list[str | None]) -> list[str | None]:
    """Each value, cut where all stay different, else by its hash; all None where all are the same."""
    different = set(values)
    if len(different) == 1:
        return [None] * len(values)
    starts = {value: _start(value) for value in different}
    if len(set(starts.values())) < len(different):
        starts = {v: "–" if v is None else xxh3_64_hexdigest(v.encode())[:8] for v in different}
    return [starts[value] for value in values]


def _start(value: str | None) -> str:
    return "–" if value is None else value.removeprefix("sha256:")[:_SHOWN]
