"""Prompts grow by appending: choose the earlier prompt that shares the longest prefix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracer.episode import PromptRef

Key = tuple[int, int]
"""(arm, request)."""


class PromptBases:
    """The prompts that were written so far, shared where they are equal."""

    def __init__(self) -> None:
        self._prompts: dict[Key, NDArray[np.int32]] = {}
        self._by_hash: dict[str, Key] = {}

    def add(self, key: Key, ids: NDArray[np.int32], ids_hash: str) -> None:
        """Remember a prompt that was committed."""
        first = self._by_hash.setdefault(ids_hash, key)
        self._prompts[key] = self._prompts.get(first, ids)

    def choose(
        self, arm: int, request: int, source_arm: int | None, ids: NDArray[np.int32], ids_hash: str
    ) -> tuple[PromptRef, NDArray[np.int32]]:
        """How to store this prompt: the reference, and the tail that its frame holds."""
        same = self._by_hash.get(ids_hash)
        if same is not None:
            return _reference(same, len(ids), 0), ids[:0]
        candidates = {(arm, request - 1), (0, request), (0, request - 1)}
        if source_arm is not None:
            candidates |= {(source_arm, request), (source_arm, request - 1)}
        best: Key | None = None
        longest = 0
        for key in sorted(candidates):
            base = self._prompts.get(key)
            common = 0 if base is None else _common_prefix(base, ids)
            if common > longest:
                best, longest = key, common
        return _reference(best, longest, len(ids) - longest), ids[longest:]


def _reference(key: Key | None, common: int, tail: int) -> PromptRef:
    if key is None:
        return PromptRef(tail_tokens=tail)
    return PromptRef(base_arm=key[0], base_request=key[1], common_tokens=common, tail_tokens=tail)


def _common_prefix(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    n = min(len(a), len(b))
    different = a[:n] != b[:n]
    first = int(different.argmax()) if n else 0
    return first if n and different[first] else n
