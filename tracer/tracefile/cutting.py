"""Taking the last arms off a trace file, so that they can be run anew under the same numbers."""

from __future__ import annotations

from pathlib import Path

from tracer.errors import TraceFormatError
from tracer.tracefile.file_window import DamagedBytes, FileWindow
from tracer.tracefile.writer import TraceWriter


def cut_arms(path: Path, first: int) -> None:
    """Take arm ``first`` and all after it off the file; without such an arm it stays as it is.

    ``UsageError`` when another writer has the file, ``TraceFormatError`` when it is damaged anywhere
    else than at its end, or when an earlier arm was continued behind ``first``.
    """
    with TraceWriter.append(path):  # the lock, a file without a torn tail, and the check for damage
        keep = _start_of(path, first)
        if keep is not None:
            with path.open("r+b") as file:
                file.truncate(keep)


def _start_of(path: Path, first: int) -> int | None:
    """Offset of the first frame of these arms; pieces that came with them lie behind it."""
    window = FileWindow(path)
    start = None
    try:
        for frame in window.walk(0, window.size()):
            if isinstance(frame, DamagedBytes):
                raise TraceFormatError(f"{path} is damaged and cannot be cut.")
            if frame.arm >= first:
                start = frame.offset if start is None else start
            elif start is not None and frame.arm >= 0:
                raise TraceFormatError(f"arm {frame.arm} of {path} goes on behind arm {first}.")
    finally:
        window.close()
    return start
