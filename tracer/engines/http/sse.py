"""Server-sent events, read from bytes as they arrive.

Works on bytes, so an event may be split inside a character. Lines may end in LF, CRLF or CR,
comments are skipped, ``data:`` may lack its space, several ``data`` lines make one event.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracer.errors import EngineError

MAX_EVENT_BYTES = 64 << 20
DONE = b"[DONE]"


class SseReader:
    """Feed it bytes; it yields the data of each complete event."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._skip_lf = False
        self.events = 0
        self.received_bytes = 0

    def feed(self, received: bytes) -> Iterator[bytes]:
        """The data of every event that is complete with these bytes.

        Raises ``EngineError`` when one event grows beyond MAX_EVENT_BYTES.
        """
        if not self.received_bytes and received.startswith(b"\xef\xbb\xbf"):
            received = received[3:]
        self.received_bytes += len(received)
        if self._skip_lf and received:
            # The CR before ended a line already; its LF belongs to it and is not an empty line.
            received = received.removeprefix(b"\n")
            self._skip_lf = False
        self._pending += received
        while (line := self._next_line()) is not None:
            event = self._take(line)
            if event is not None:
                yield event
        if len(self._pending) + self._size > MAX_EVENT_BYTES:
            raise EngineError("The server sent one event larger than 64 MiB; the stream was given up.")

    def finish(self) -> bytes | None:
        """What is left at the end of the stream: data without its closing empty line, or None."""
        if self._pending:
            self._take(bytes(self._pending))
            self._pending.clear()
        return self._take(b"")

    def _next_line(self) -> bytes | None:
        lf, cr = self._pending.find(b"\n"), self._pending.find(b"\r")
        if lf < 0 and cr < 0:
            return None
        if cr < 0 or 0 <= lf < cr:
            end, after = lf, lf + 1
        else:
            end, after = cr, cr + 1
            if after == len(self._pending):
                self._skip_lf = True
            elif self._pending[after] == 0x0A:
                after += 1
        line = bytes(self._pending[:end])
        del self._pending[:after]
        return line

    def _take(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            event = b"\n".join(self._data)
            self._data.clear()
            self._size = 0
            self.events += 1
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
        return None
