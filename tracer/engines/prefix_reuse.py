"""How an engine of ours decides what it may reuse: the same rules as the llama.cpp server.

Only token ids are looked at here; keys and values are the engine's own business.
"""

from __future__ import annotations

from collections.abc import Sequence

KEEP_AT_LEAST = 0.5
"""The server saves a slot's state into the second layer when a request would keep less than this
part of what the slot holds."""


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix, in tokens."""
    limit = min(len(one), len(other))
    if tuple(one[:limit]) == tuple(other[:limit]):
        return limit
    return next(i for i in range(limit) if one[i] != other[i])


def reusable(held: Sequence[int], prompt: Sequence[int], block_tokens: int = 1) -> int:
    """Prompt tokens that need not be computed: whole blocks, and never the last prompt token."""
    usable = min(common_prefix(held, prompt), max(len(prompt) - 1, 0))
    return usable - usable % block_tokens


def would_overwrite(held: Sequence[int], prompt: Sequence[int]) -> bool:
    """Whether serving the prompt throws away most of what is held, so that it is worth saving."""
    return bool(held) and common_prefix(held, prompt) < KEEP_AT_LEAST * len(held)
