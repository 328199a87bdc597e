"""Cached tokens from the server's counters, where its answers do not count them.

Version 0.11 leaves the field of the answer null; the differences of two counters around a request
say the same, as long as nobody else uses the server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tracer.engines.http.endpoint import Endpoint
from tracer.engines.http.prometheus import total
from tracer.engines.vllm.described import HITS, QUERIES, read_metrics

_PATIENCE_S = 2.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Counters:
    """Tokens asked for and tokens found since the server's start."""

    queries: float
    hits: float


@dataclass(frozen=True, slots=True)
class Counted:
    """Cached tokens of one request; None with the reason when the counters cannot tell."""

    cached_tokens: int | None
    note: str | None = None


def read_counters(endpoint: Endpoint) -> Counters | None:
    """Both counters now; None when the server has none."""
    samples = read_metrics(endpoint)
    if samples is None:
        return None
    queries, hits = total(samples, QUERIES), total(samples, HITS)
    return None if queries is None or hits is None else Counters(queries, hits)


def counted_since(endpoint: Endpoint, before: Counters, prompt_tokens: int) -> Counted:
    """The difference that one request of ``prompt_tokens`` made. The counters lag a little behind."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        after = read_counters(endpoint)
        asked = 0 if after is None else round(after.queries - before.queries)
        if after is not None and asked >= prompt_tokens:
            break
        if time.monotonic() > deadline:
            return Counted(None, f"the counters show {asked} of {prompt_tokens} prompt tokens")
        time.sleep(_POLL_S)
    if asked != prompt_tokens:
        return Counted(
            None, f"the counters show {asked} prompt tokens instead of {prompt_tokens}: other traffic"
        )
    return Counted(round(after.hits - before.hits))
