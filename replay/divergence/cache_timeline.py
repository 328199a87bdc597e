"""Which stretches of each prompt came from a cache, and where the shared prefix broke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from replay.divergence.readable import ReadableTrace
from tracer.episode import CacheState, Exposure, Request
from tracer.exposure import ExposureVerdict, exposure_verdict


class Stretch(StrEnum):
    """How a stretch of a prompt's keys and values came to be."""

    CACHED = "cached"
    PROMPT_CACHE = "prompt cache"
    RESTORED = "restored"
    COMPUTED = "computed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PromptStretch:
    """Prompt tokens ``start`` up to, not including, ``end``."""

    kind: Stretch
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RequestCache:
    """One request in the cache timeline of an arm. None = not observed."""

    request: int
    prompt_tokens: int | None
    stretches: tuple[PromptStretch, ...]
    exposure: Exposure
    verdict: ExposureVerdict
    broke_at: int | None
    """First token that departs from the previous prompt plus its output; None = none, or not known."""
    broke_token: int | None = None


def cache_timeline(trace: ReadableTrace, arm: int) -> tuple[RequestCache, ...]:
    """Every request of an arm; reads prompts and path ids, no numbers."""
    requests = trace.requests(arm)
    state, block = trace.arms[arm].state, trace.arms[arm].capabilities.cache_block_tokens
    return tuple(_request_cache(trace, arm, requests, place, state, block) for place in range(len(requests)))


def prompt_stretches(exposure: Exposure, prompt_tokens: int | None) -> tuple[PromptStretch, ...]:
    """The stretches of a prompt from its start: caches serve a prefix, so what is left was computed.

    A stretch that a restored state or the second layer brought back comes first: the first layer only
    adds to what it was given.
    """
    if not prompt_tokens:
        return ()
    cached = exposure.cached_tokens
    if cached is None:
        return (PromptStretch(Stretch.UNKNOWN, 0, prompt_tokens),)
    cached = min(cached, prompt_tokens)
    restored = min(exposure.restored_tokens or 0, cached)
    second = min(max(exposure.prompt_cache_tokens or 0, restored), cached)
    ends = (
        (Stretch.RESTORED, restored),
        (Stretch.PROMPT_CACHE, second),
        (Stretch.CACHED, cached),
        (Stretch.COMPUTED, prompt_tokens),
    )
    stretches, start = [], 0
    for kind, end in ends:
        if end > start:
            stretches.append(PromptStretch(kind, start, end))
            start = end
    return tuple(stretches)


def _request_cache(
    trace: ReadableTrace, arm: int, requests: Sequence[Request], place: int, state: CacheState, block: int
) -> RequestCache:
    request = requests[place]
    prompt = request.prompt_tokens if request.prompt_tokens is not None else request.exposure.prompt_tokens
    broke_at, broke_token = _broke(trace, arm, requests, place)
    return RequestCache(
        request=request.index,
        prompt_tokens=prompt,
        stretches=prompt_stretches(request.exposure, prompt),
        exposure=request.exposure,
        verdict=exposure_verdict(request.exposure, state, block),
        broke_at=broke_at,
        broke_token=broke_token,
    )


def _broke(
    trace: ReadableTrace, arm: int, requests: Sequence[Request], place: int
) -> tuple[int | None, int | None]:
    """(position, token) at which this prompt departs from the previous prompt plus its output."""
    if place == 0:
        return None, None
    now = trace.prompt_ids(arm, requests[place].index)
    found = requests[place].prefix_break
    if found is not None:
        known = now is not None and 0 <= found.position < len(now)
        return found.position, int(now[found.position]) if now is not None and known else None
    before = trace.prompt_ids(arm, requests[place - 1].index)
    if now is None or before is None:
        return None, None
    before = np.concatenate([before, trace.path(arm, requests[place - 1].index).token_ids])
    n = min(len(now), len(before))
    unequal = np.flatnonzero(now[:n] != before[:n])
    if not unequal.size:
        return None, None
    return int(unequal[0]), int(now[unequal[0]])
