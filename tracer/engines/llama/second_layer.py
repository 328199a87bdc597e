"""The second cache layer in process: whole sequence states in llama-cpp-python's LlamaRAMCache.

That class finds a state by the longest token prefix, keeps the most recently used and forgets the
oldest beyond its size. It never touches the states themselves, so ours go in as they are. Its
sibling on disk (pickles) is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracer.engines.prefix_reuse import common_prefix

DEFAULT_MIB = 8192
"""As the llama.cpp server's ``--cache-ram``."""


@dataclass(frozen=True, slots=True)
class StoredSequence:
    """One sequence state as the cache keeps it; the size's name is what the cache reads."""

    token_ids: tuple[int, ...]
    state: bytes
    llama_state_size: int


class SecondLayer:
    """Sequence states by longest token prefix, within ``size_bytes``."""

    def __init__(self, size_bytes: int) -> None:
        from llama_cpp.llama_cache import LlamaRAMCache

        self.size_bytes = size_bytes
        self._cache: Any = LlamaRAMCache(capacity_bytes=size_bytes)

    def put(self, token_ids: tuple[int, ...], state: bytes) -> None:
        """Keep a state; the oldest go when the size is exceeded."""
        self._cache[token_ids] = StoredSequence(token_ids, state, len(state))

    def better_than(self, tokens: int, prompt_ids: Sequence[int]) -> StoredSequence | None:
        """The state with the longest prefix of the prompt, if that is longer than ``tokens``."""
        if prompt_ids not in self._cache:
            return None
        key = self._cache._find_longest_prefix_key(tuple(prompt_ids))
        if common_prefix(key, prompt_ids) <= tokens:
            return None  # asking the cache itself would mark the state as used
        found: StoredSequence = self._cache[prompt_ids]
        return found

    def clear(self) -> None:
        """Forget every state."""
        self._cache.cache_state.clear()
