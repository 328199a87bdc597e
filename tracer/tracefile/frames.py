"""Frames: the outer structure of a trace file, a plain stream of msgpack ext objects.

A frame is ``ext32`` (0xC9, length as big-endian uint32, kind as int8), a fixed little-endian
prefix, then the payload. The prefix's own checksum covers everything before it, the payload's
checksum included, so that kind, length, sequence number, arm, request AND payload are covered,
and a frame can be skipped without reading its payload.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

FORMAT_VERSION = 1
MAGIC = "cachetrace"

EXT32 = 0xC9
_EXT = struct.Struct(">BIb")
_PREFIX = struct.Struct("<IiiII")
PREFIX_BYTES = _PREFIX.size
HEAD_BYTES = _EXT.size + PREFIX_BYTES
_CHECKED_BYTES = HEAD_BYTES - 4

NO_ARM = -1
NO_REQUEST = -1
FIRST_OPTIONAL_KIND = 64
MAX_DESCRIPTION_BYTES = 32 * 1024 * 1024
"""Largest payload that is decoded as a description; columns are bounded by the file's size."""


class Kind(IntEnum):
    """What a frame holds. Codes from 64 on may be skipped by a reader that does not know them."""

    HEADER = 1
    ARM = 2
    REQUEST = 3
    """A request's description, written last: the commit."""
    ARM_END = 4
    PROMPT = 5
    PATH = 6
    ALTERNATIVES = 7
    PIECES = 8
    ROWS = 64


COLUMN_KINDS = frozenset({Kind.PROMPT, Kind.PATH, Kind.ALTERNATIVES, Kind.ROWS})
KNOWN_KINDS = frozenset(int(kind) for kind in Kind)


class Frame(NamedTuple):
    """Where one frame lies and what its head says; the payload is not read."""

    kind: int
    sequence: int
    arm: int
    request: int
    offset: int
    """First byte of the frame in the file."""
    payload_offset: int
    payload_bytes: int
    payload_crc: int

    @property
    def end(self) -> int:
        """First byte after the frame."""
        return self.payload_offset + self.payload_bytes


def pack_frame(kind: int, sequence: int, arm: int, request: int, payload: bytes) -> bytes:
    """The whole frame as it stands in the file."""
    head = _EXT.pack(EXT32, PREFIX_BYTES + len(payload), kind)
    head += struct.pack("<IiiI", sequence, arm, request, crc32(payload))
    return head + struct.pack("<I", crc32(head)) + payload


def parse_head(head: bytes, offset: int) -> Frame | None:
    """The frame whose head is ``head`` (``HEAD_BYTES`` long); None when that is no intact head."""
    if len(head) < HEAD_BYTES or head[0] != EXT32:
        return None
    _, body_bytes, kind = _EXT.unpack_from(head)
    sequence, arm, request, payload_crc, head_crc = _PREFIX.unpack_from(head, _EXT.size)
    if body_bytes < PREFIX_BYTES or kind < 1 or crc32(head[:_CHECKED_BYTES]) != head_crc:
        return None
    payload_offset = offset + HEAD_BYTES
    return Frame(kind, sequence, arm, request, offset, payload_offset, body_bytes - PREFIX_BYTES, payload_crc)


def payload_checksum(frame: bytes) -> int:
    """The payload's checksum as a packed frame says it."""
    found = parse_head(frame[:HEAD_BYTES], 0)
    assert found is not None
    return found.payload_crc
