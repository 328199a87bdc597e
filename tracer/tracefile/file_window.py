"""Reading at offsets through one buffered window; and walking the frames of a file with it.

Not mmap: a file that is cut while it is mapped kills the process, and traces are followed while
they are written and resumed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from tracer.errors import TraceFormatError
from tracer.tracefile.frames import EXT32, HEAD_BYTES, Frame, parse_head

_WINDOW_BYTES = 1 << 16
_SEARCH_BYTES = 1 << 20
_MOST_SEARCH_ATTEMPTS = 100_000
_MOST_RECHECK_BYTES = 1 << 26
"""Both bound the search in hostile files to well under a second."""


class DamagedBytes(NamedTuple):
    """Bytes that are no frame. At the end of the file that is a torn tail."""

    offset: int
    end: int


class FileWindow:
    """Reads ``size`` bytes at an offset; small neighbouring reads cost one system call together."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise TraceFormatError(f"{path}: cannot be opened ({error.strerror}).") from error
        self._path = path
        self._start = 0
        self._held = b""
        self._lock = threading.Lock()
        self._attempts_left = _MOST_SEARCH_ATTEMPTS
        self._recheck_bytes_left = _MOST_RECHECK_BYTES

    def close(self) -> None:
        self._file.close()

    def size(self) -> int:
        """Bytes in the file now."""
        with self._lock:
            return self._seek(0, 2)

    def is_file_at(self, path: Path) -> bool:
        """Whether the path still names the open file, or nothing (what is open can be read)."""
        try:
            return os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return True

    def forget(self) -> None:
        """Drop what is buffered, because the file may have changed."""
        self._held = b""

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only where the file ends."""
        with self._lock:
            at = offset - self._start
            if at >= 0 and at + size <= len(self._held):
                return self._held[at : at + size]
            self._seek(offset)
            if size >= _WINDOW_BYTES:
                return self._read_fully(size)
            self._start, self._held = offset, self._read_fully(_WINDOW_BYTES)
            return self._held[:size]

    def _seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._file.seek(offset, whence)
        except OSError as error:
            raise TraceFormatError(f"{self._path}: cannot be read ({error.strerror}).") from error

    def _read_fully(self, size: int) -> bytes:
        # The file's size bounds the allocation, whatever a frame's head claims.
        parts: list[bytes] = []
        try:
            while size and (chunk := self._file.read(size)):
                parts.append(chunk)
                size -= len(chunk)
        except OSError as error:
            raise TraceFormatError(f"{self._path}: cannot be read ({error.strerror}).") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def payload(self, frame: Frame, *, alone: bool = False) -> bytes | None:
        """The frame's payload; None when its checksum does not hold.

        ``alone``: its neighbours will not be asked for next, so nothing more is read.
        """
        read = self._read_alone if alone else self.read
        payload = read(frame.payload_offset, frame.payload_bytes)
        return payload if crc32(payload) == frame.payload_crc else None

    def _read_alone(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._seek(offset)
            return self._read_fully(size)

    def walk(self, offset: int, size: int) -> Iterator[Frame | DamagedBytes]:
        """Every frame from ``offset`` to ``size``, and the byte ranges that are none."""
        previous: Frame | None = None
        while offset < size:
            frame = parse_head(self.read(offset, HEAD_BYTES), offset)
            if frame is not None and (end := frame.end) <= size:
                yield frame
                previous, offset = frame, end
                continue
            damaged_from = offset
            search_from = offset + 1
            if frame is None and previous is not None and self._payload_is_bad(previous):
                # Bytes were taken out of the last payload: the next frame begins inside it.
                search_from = previous.payload_offset
                damaged_from = min(damaged_from, previous.payload_offset)
            found = self._next_frame(search_from, size)
            yield DamagedBytes(damaged_from, size if found is None else found)
            if found is None:
                return
            previous, offset = None, found

    def _payload_is_bad(self, frame: Frame) -> bool:
        self._recheck_bytes_left -= frame.payload_bytes
        return self._recheck_bytes_left > 0 and self.payload(frame) is None

    def _next_frame(self, offset: int, size: int) -> int | None:
        """Offset of the first intact head from ``offset`` on whose frame fits into the file."""
        while offset < size:
            chunk = self.read(offset, min(_SEARCH_BYTES, size - offset))
            at = chunk.find(EXT32)
            while at >= 0:
                self._attempts_left -= 1
                if self._attempts_left <= 0:
                    return None
                head = chunk[at : at + HEAD_BYTES]
                if len(head) < HEAD_BYTES:
                    head = self.read(offset + at, HEAD_BYTES)
                frame = parse_head(head, offset + at)
                if frame is not None and frame.end <= size:
                    return offset + at
                at = chunk.find(EXT32, at + 1)
            if not chunk:
                return None
            offset += len(chunk)
        return None
