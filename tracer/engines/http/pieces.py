"""The bytes of token ids, learned from answers and asked from the server in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

SEPARATOR = "\n=¦=\n"
"""Put between tokens that are spelled together in one request; ordinary text does not hold it."""
_BATCH = 512

Spell = Callable[[Sequence[int]], str | None]
"""Text of a sequence of ids, as the server spells it; None when it cannot."""


class PieceBook:
    """Remembers every piece. Parts of a character cannot be spelled alone and stay unknown."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes | None] = {}
        self._wanted: set[int] = set()

    def learn(self, pieces: dict[int, bytes]) -> None:
        """Bytes that an answer named."""
        self._pieces.update(pieces)

    def expect(self, token_ids: Iterable[int]) -> None:
        """Ids that ``piece`` may be asked for soon, so that one request answers for all."""
        self._wanted.update(token for token in token_ids if token not in self._pieces)

    def known(self, token_id: int) -> bytes | None:
        """The token's bytes as far as they are known without asking."""
        return self._pieces.get(token_id)

    def piece(self, token_id: int, spell: Spell, separator_ids: Callable[[], Sequence[int]]) -> bytes | None:
        """The token's bytes; None when the server cannot spell them."""
        if token_id not in self._pieces:
            wanted = [*sorted(self._wanted - {token_id} - self._pieces.keys()), token_id]
            self._wanted.clear()
            separator = list(separator_ids())
            for start in range(0, len(wanted), _BATCH):
                self._ask(wanted[start : start + _BATCH], spell, separator)
        return self._pieces.get(token_id)

    def _ask(self, batch: Sequence[int], spell: Spell, separator: list[int]) -> None:
        line = list(separator)
        for token in batch:
            line += [token, *separator]
        content = spell(line)
        parts = content.split(SEPARATOR) if content is not None else []
        whole = len(parts) == len(batch) + 2
        for place, token in enumerate(batch):
            text = parts[place + 1] if whole else "\ufffd"
            self._pieces[token] = None if "\ufffd" in text else text.encode("utf-8", "replace")
