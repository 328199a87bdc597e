"""Reading only the heads of a trace file, for lists of many files."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tracer.episode import Arm, ArmEnd, Episode
from tracer.tracefile.file_index import FileIndex
from tracer.tracefile.file_window import FileWindow


class ArmHead(Struct, frozen=True, kw_only=True):
    """One arm without its requests."""

    arm: Arm
    requests: int
    """Committed requests."""
    end: ArmEnd | None

    @property
    def complete(self) -> bool:
        """Whether the arm ran to its end."""
        return self.end is not None and self.end.completed


class TraceHead(Struct, frozen=True, kw_only=True):
    """What a list of files shows of one file. Requests and columns were not read."""

    path: str
    size_bytes: int
    format: int
    writer: str
    episode: Episode
    arms: tuple[ArmHead, ...]
    damaged: bool
    """Frames are damaged, missing or doubled; ``TraceReader.losses`` says which."""
    torn: bool
    """The file ends inside a frame: a writer was killed, or is writing now."""

    @property
    def complete(self) -> bool:
        """Whether it has arms and all of them ran to their end."""
        return bool(self.arms) and all(arm.complete for arm in self.arms)


def read_header(path: Path | str) -> TraceHead:
    """Episode and arms with their states and numbers of requests; ``TraceFormatError`` as in open."""
    path = Path(path)
    window = FileWindow(path)
    try:
        size = window.size()
        index = FileIndex.build(path, window, heads_only=True)
    finally:
        window.close()
    losses = index.losses()
    arms = tuple(
        ArmHead(arm=arm, requests=index.arm(arm.index).known_requests(), end=index.arm(arm.index).end)
        for arm in index.arms()
    )
    return TraceHead(
        path=str(path),
        size_bytes=size,
        format=index.header.format,
        writer=index.header.writer,
        episode=index.header.episode,
        arms=arms,
        damaged=any(not loss.at_end for loss in losses),
        torn=any(loss.at_end for loss in losses),
    )
