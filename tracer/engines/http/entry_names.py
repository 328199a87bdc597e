"""What an entry names its token by: an id, the string ``token_id:N``, bytes, or a string."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.engines.http.wire import TopEntry

_ID_STRING = re.compile(r"token_id:(\d{1,9})\Z")
_SPELLED_BYTES = re.compile(r"(?:bytes:)?((?:\\x[0-9a-fA-F]{2})+)\Z")


def id_of(entry: TopEntry) -> int | None:
    """The id that an entry names: as a number, or as the string ``token_id:N``."""
    if entry.id is not None:
        return entry.id
    if entry.token_id is not None:
        return entry.token_id
    if entry.token is not None and entry.token.startswith("token_id:"):
        match = _ID_STRING.match(entry.token)
        return int(match.group(1)) if match else None
    return None


def bytes_of(entry: TopEntry) -> bytes | None:
    """The token's bytes; None when the server hides them (incomplete characters, special tokens)."""
    if entry.token is not None and entry.token.startswith("token_id:"):
        spelled = entry.bytes
        # vLLM spells the placeholder itself in the alternatives' bytes.
        return (
            None if not spelled or bytes(_byte_values(spelled)) == entry.token.encode() else _bytes(spelled)
        )
    if entry.bytes is not None:
        return _bytes(entry.bytes) if entry.bytes else None
    if entry.token is None or not entry.token or "\ufffd" in entry.token:
        return None
    if match := _SPELLED_BYTES.match(entry.token):
        return bytes.fromhex(match.group(1).replace("\\x", ""))
    return entry.token.encode("utf-8", "replace")


def _byte_values(numbers: Sequence[int]) -> list[int]:
    return [number & 0xFF for number in numbers]


def _bytes(numbers: Sequence[int]) -> bytes | None:
    try:
        return bytes(numbers)
    except ValueError:  # a number that is no byte
        return None
