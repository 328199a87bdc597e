"""Local ids for token strings, where a server names no ids (Identity.TOKEN_STRING and TEXT).

An id is a hash of the string's bytes, so that arms recorded by different processes agree. They
lie at and above FIRST_LOCAL_ID, beyond any vocabulary. Two strings of one run that fall on the
same id (about one run in a hundred with 5,000 different strings) get different ones.
"""

from __future__ import annotations

import xxhash

FIRST_LOCAL_ID = 1 << 30
_SPAN = (1 << 30) - 1


class LocalIds:
    """The strings of one run and their ids."""

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, int] = {}
        self._by_id: dict[int, bytes] = {}

    def id_of(self, piece: bytes) -> int:
        """The id that stands for this string."""
        known = self._by_bytes.get(piece)
        if known is not None:
            return known
        offset = xxhash.xxh3_64_intdigest(piece) % _SPAN
        while FIRST_LOCAL_ID + offset in self._by_id:
            offset = (offset + 1) % _SPAN
        local_id = FIRST_LOCAL_ID + offset
        self._by_bytes[piece] = local_id
        self._by_id[local_id] = piece
        return local_id

    def piece(self, local_id: int) -> bytes | None:
        """The string behind a local id."""
        return self._by_id.get(local_id)
