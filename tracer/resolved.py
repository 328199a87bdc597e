"""What an engine made of a setting that was left to it ("auto").

It is observed in some traces and not in others, so it tells two configurations apart only where both
were seen to have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tracer.episode import EngineInfo

FLASH_ATTENTION = "flash_attention_resolved"
"""Key in ``EngineInfo.flags``."""
_RESOLVED = {FLASH_ATTENTION: "flash attention as the engine resolved it"}


def without_resolved(info: EngineInfo) -> EngineInfo:
    """The configuration as it was asked for."""
    if not any(name in info.flags for name in _RESOLVED):
        return info
    return replace(info, flags={name: value for name, value in info.flags.items() if name not in _RESOLVED})


def side_by_side(a: EngineInfo, b: EngineInfo) -> tuple[EngineInfo, EngineInfo]:
    """Both, without what only one of them was seen to have resolved."""
    if all((name in a.flags) == (name in b.flags) for name in _RESOLVED):
        return a, b
    return without_resolved(a), without_resolved(b)


def resolved_otherwise(a: EngineInfo, b: EngineInfo) -> Iterator[tuple[str, str, str]]:
    """(setting in words, value of ``a``, value of ``b``) where both are known and differ."""
    for name, words in _RESOLVED.items():
        if name in a.flags and name in b.flags and a.flags[name] != b.flags[name]:
            yield words, a.flags[name], b.flags[name]
