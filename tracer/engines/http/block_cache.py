"""Our own account of which blocks a prefix cache holds, from the requests that it has served.

vLLM and SGLang keep whole blocks of every sequence, each known by its tokens and all before them.
Eviction is not seen from outside, so the account is what SHOULD be there.
"""

from __future__ import annotations

from collections.abc import Sequence

_START = 0


class BlockCache:
    """Blocks by a chained hash of their tokens."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = max(block_tokens, 1)
        self._blocks: set[int] = set()

    def clear(self) -> None:
        """Everything was emptied."""
        self._blocks.clear()

    def add(self, tokens: Sequence[int]) -> None:
        """These tokens were computed; only whole blocks stay."""
        self._blocks.update(self._chain(tokens))

    def expected(self, prompt: Sequence[int]) -> int:
        """Tokens of the prompt that should be reused: whole blocks, never the last token."""
        found = 0
        for block in self._chain(prompt[:-1]):
            if block not in self._blocks:
                break
            found += self._block_tokens
        return found

    def _chain(self, tokens: Sequence[int]) -> list[int]:
        chain, before = [], _START
        size = self._block_tokens
        for start in range(0, len(tokens) - size + 1, size):
            before = hash((before, tuple(tokens[start : start + size])))
            chain.append(before)
        return chain
