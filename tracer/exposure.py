"""Exposure: how many prompt tokens a cache should serve, and whether it did.

What is expected is computed BEFORE a request, from what the caches hold; what was observed comes
from the engine afterwards. The verdict holds one against the other. Nothing here talks to an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from tracer.episode import CacheState, Exposure


class ExposureVerdict(StrEnum):
    """Whether the cache state of a request was what the arm claims."""

    AS_EXPECTED = "as expected"
    SHORT = "short"
    MORE = "more than expected (second layer)"
    UNKNOWN = "unknown"


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading token ids two sequences share."""
    shortest = min(len(first), len(second))
    for position in range(shortest):
        if first[position] != second[position]:
            return position
    return shortest


def expected_tokens(held: Sequence[int] | None, prompt: Sequence[int], block_tokens: int = 1) -> int | None:
    """How many tokens of ``prompt`` a cache that holds ``held`` should serve; None if that is not known.

    At least the last prompt token is always computed, since its row is what the first output token
    is chosen from; engines that cache by blocks reuse whole blocks only.
    """
    if held is None:
        return None
    usable = min(common_prefix(held, prompt), max(len(prompt) - 1, 0))
    block = max(block_tokens, 1)
    return usable // block * block


def exposure_verdict(exposure: Exposure, state: CacheState, block_tokens: int = 1) -> ExposureVerdict:
    """Hold the observed exposure of one request against what the arm's state makes us expect.

    A cold request must have 0 cached tokens, whatever was expected. ``block_tokens`` floors an
    expectation that was stored without regard to the engine's block.
    """
    cached = exposure.cached_tokens
    if cached is None:
        return ExposureVerdict.UNKNOWN
    expected = 0 if state is CacheState.COLD else exposure.expected_tokens
    if expected is None:
        return ExposureVerdict.UNKNOWN
    block = max(block_tokens, 1)
    expected = expected // block * block
    if cached < expected:
        return ExposureVerdict.SHORT
    return ExposureVerdict.AS_EXPECTED if cached == expected else ExposureVerdict.MORE


def state_holds(verdict: ExposureVerdict, state: CacheState) -> bool:
    """Whether a request with this verdict met the cache state that its arm claims.

    ``MORE`` is how the second layer shows itself, so it belongs to the states that leave it on.
    """
    if verdict is ExposureVerdict.AS_EXPECTED:
        return True
    return verdict is ExposureVerdict.MORE and state in (CacheState.WARM, CacheState.AS_SERVED)


def short_by(exposure: Exposure) -> int | None:
    """Expected minus cached tokens (negative: more than expected); None when one is not known."""
    if exposure.cached_tokens is None or exposure.expected_tokens is None:
        return None
    return exposure.expected_tokens - exposure.cached_tokens
