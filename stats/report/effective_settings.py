"""Flags and variables that tell two configurations apart, without those that are the cache state itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import msgspec

from tracer.episode import Arm

_OF_THE_CACHE = frozenset(
    {
        "emptied_by",
        "cold_by",
        "prefix_caching_hash_algo",
        "pinned_slot",
        "prompt_cache_seen",
        "enable_prefix_caching",
        "no_enable_prefix_caching",
        "disable_radix_cache",
        "cache_prompt",
        "no_cache_prompt",
    }
)
"""How a state is made and what it switches; it differs between the arms that are compared."""
_MOVE_NOTHING = frozenset({"host", "port", "api_key", "enable_prompt_tokens_details", "metrics", "verbosity"})
_IN_THE_WEIGHT_FORMAT = frozenset({"quantization", "q"})
_ARGUMENTS = "arguments"

_DETERMINISTIC = {
    "VLLM_BATCH_INVARIANT": "VLLM_BATCH_INVARIANT=1",
    "enable_deterministic_inference": "SGLang's deterministic inference",
    "SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "SGLang's deterministic inference",
}
_SWITCHED = {"1": "1", "true": "1", "on": "1", "0": "0", "false": "0", "off": "0"}


def settings_text(arm: Arm) -> str:
    """All of an arm's settings as one comparable text; ``settings_of`` reads it again."""
    engine = arm.engine
    told = {**arm.environment, **{n: v for n, v in engine.flags.items() if n != _ARGUMENTS}}
    named = {_bare(name) for name in told}
    # What the server says about itself is in force, whatever the argument asked for.
    asked = _options(engine.flags.get(_ARGUMENTS, ""))
    told |= {option: value for option, value in asked.items() if _bare(option) not in named}
    kept = {name: _switch(name, value) for name, value in told.items() if not _left_out(_bare(name))}
    return msgspec.json.encode(kept, order="deterministic").decode()


def settings_of(text: str | None) -> dict[str, str]:
    """The settings by name."""
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def deterministic_mode(settings: Mapping[str, str]) -> str | None:
    """The deterministic mode that is on, as a reader knows it; None = none is on."""
    for name, value in settings.items():
        mode = _DETERMINISTIC.get(name) or _DETERMINISTIC.get(_bare(name))
        if mode is not None and value == "1":
            return mode
    return None


def _options(arguments: str) -> dict[str, str]:
    """A command line's options by name; an option without a value is ``on``."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            name, equals, value = word.partition("=")
            found[name] = value if equals else ""
        else:
            found[name] = f"{found.get(name, '')} {word}".strip()
    return {option: value or "on" for option, value in found.items()}


def _switch(name: str, value: str) -> str:
    """Servers and environments write the same switch in several ways."""
    mode = name in _DETERMINISTIC or _bare(name) in _DETERMINISTIC
    return _SWITCHED.get(value.lower(), value) if mode else value


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _left_out(name: str) -> bool:
    return name in _OF_THE_CACHE or name in _MOVE_NOTHING or name in _IN_THE_WEIGHT_FORMAT
