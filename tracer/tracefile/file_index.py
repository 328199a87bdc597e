"""The index of a whole trace file, built in one pass and extended while the file grows."""

from __future__ import annotations

from pathlib import Path

from tracer.episode import Arm, ArmEnd
from tracer.errors import TraceFormatError
from tracer.tracefile.arm_index import MOST_ARMS, MOST_LOSSES, ArmIndex
from tracer.tracefile.file_window import DamagedBytes, FileWindow
from tracer.tracefile.frames import (
    COLUMN_KINDS,
    FIRST_OPTIONAL_KIND,
    HEAD_BYTES,
    KNOWN_KINDS,
    MAX_DESCRIPTION_BYTES,
    Frame,
    Kind,
    parse_head,
)
from tracer.tracefile.losses import Loss, LossKind
from tracer.tracefile.payloads import Commit, FileHeader, decode, decode_header
from tracer.tracefile.sequence import SequenceCheck

_EAGER = frozenset({Kind.PATH, Kind.PROMPT})
"""Columns that every verdict reads: their checksums are checked while indexing."""


class FileIndex:
    """Arms, requests and places of columns. Frames may come in any order; losses are named."""

    def __init__(self, path: Path, header: FileHeader, first: Frame, *, heads_only: bool) -> None:
        self.path = path
        self.header = header
        self.pieces: dict[int, bytes] = {}
        self.intact_bytes = first.end
        self.sequence_at_intact = first.sequence + 1
        self._heads_only = heads_only
        self._arms: dict[int, ArmIndex] = {}
        self._last = first
        self._scanned_to = first.end
        self._sequence = SequenceCheck(first.sequence)
        self._losses: list[Loss] = []
        self._tail: Loss | None = None
        self._derived: list[Loss] = []
        self._listed: tuple[Arm, ...] | None = None

    @classmethod
    def build(cls, path: Path, window: FileWindow, *, heads_only: bool = False) -> FileIndex:
        """Index the whole file. ``heads_only`` reads no columns and no requests' descriptions."""
        size = window.size()
        first = parse_head(window.read(0, HEAD_BYTES), 0)
        if first is None or first.end > size or first.kind != Kind.HEADER:
            what = "it is empty" if size == 0 else "its first frame is no intact header"
            raise TraceFormatError(f"{path} is no readable trace file: {what}.")
        payload = window.payload(first) if first.payload_bytes <= MAX_DESCRIPTION_BYTES else None
        if payload is None:
            raise TraceFormatError(f"{path} is no readable trace file: its header is damaged.")
        try:
            index = cls(path, decode_header(payload), first, heads_only=heads_only)
        except TraceFormatError as error:
            raise TraceFormatError(f"{path} is no readable trace file: {error}") from error
        index._scan(window, size)
        return index

    def extend(self, window: FileWindow) -> bool | None:
        """Index what was added. None = the file is no longer the one that was indexed."""
        window.forget()
        size = window.size()
        head = parse_head(window.read(self._last.offset, HEAD_BYTES), self._last.offset)
        if not window.is_file_at(self.path) or size < self._scanned_to or head != self._last:
            return None
        if size == self._scanned_to + (self._tail.size_bytes or 0 if self._tail else 0):
            return False
        self._scan(window, size)
        return True

    def arm_or_none(self, index: int) -> ArmIndex | None:
        return self._arms.get(index)

    def arm(self, index: int) -> ArmIndex:
        """One arm; ``TraceFormatError`` when the file has no such arm."""
        found = self._arms.get(index)
        if found is None:
            known = max(self._arms, default=-1) + 1
            if 0 <= index < known:
                return ArmIndex()
            raise TraceFormatError(f"{self.path} has no arm {index}; it has {known}.")
        return found

    def arms(self) -> tuple[Arm, ...]:
        """All arms, with stand-ins for lost descriptions."""
        if self._listed is None:
            known = max(self._arms, default=-1) + 1
            self._listed = tuple(self._arms.get(i, ArmIndex()).described(i) for i in range(known))
        return self._listed

    def losses(self) -> tuple[Loss, ...]:
        tail = () if self._tail is None else (self._tail,)
        return (*self._losses, *self._sequence.losses(), *self._derived, *tail)

    def _scan(self, window: FileWindow, size: int) -> None:
        self._tail = None
        self._listed = None
        for item in window.walk(self._scanned_to, size):
            if isinstance(item, DamagedBytes):
                self._note_damage(item, size)
                continue
            self._last, self._scanned_to = item, item.end
            self._take(item, window)
        self._derived = list(self._find_derived())

    def _note_damage(self, item: DamagedBytes, size: int) -> None:
        at_end = item.end == size
        where = f"bytes {item.offset} to {item.end}"
        if at_end:
            self._tail = Loss(
                kind=LossKind.TORN_TAIL,
                sentence=f"the file ends inside a frame: {where} are lost.",
                offset=item.offset,
                size_bytes=item.end - item.offset,
                at_end=True,
            )
            return
        self._losses.append(
            Loss(
                kind=LossKind.DAMAGED_BYTES,
                sentence=f"{where} are no frame; what stood there after {self._place()} is lost.",
                arm=self._last.arm if self._last.arm >= 0 else None,
                offset=item.offset,
                size_bytes=item.end - item.offset,
            )
        )

    def _place(self) -> str:
        last = self._last
        if last.arm < 0:
            return "the header"
        return f"arm {last.arm}" + (f", request {last.request}" if last.request >= 0 else "")

    def _take(self, frame: Frame, window: FileWindow) -> None:
        if not self._sequence.accept(frame):
            return  # doubled: the first one stands
        if frame.kind not in KNOWN_KINDS:
            if frame.kind < FIRST_OPTIONAL_KIND:
                raise TraceFormatError(
                    f"{self.path} holds frames of kind {frame.kind}, which this cachetrace does not know; "
                    f"the file was written by {self.header.writer!r}: install a newer one."
                )
            self._advance(frame)
            return
        if frame.kind == Kind.HEADER:
            raise TraceFormatError(f"{self.path} holds a second header at byte {frame.offset}.")
        if frame.kind == Kind.PIECES:
            self._take_pieces(frame, window)
            self._advance(frame)  # useful without the request that it came with
            return
        if not 0 <= frame.arm < MOST_ARMS:
            raise TraceFormatError(f"{self.path} names arm {frame.arm} at byte {frame.offset}.")
        entry = self._arms.get(frame.arm)
        if entry is None:
            entry = self._arms[frame.arm] = ArmIndex()
        if frame.kind in COLUMN_KINDS:
            if not self._heads_only:
                self._take_column(frame, entry, window)
        else:
            self._take_description(frame, entry, window)

    def _advance(self, frame: Frame) -> None:
        """Everything up to here is whole: no columns wait for their commit."""
        self.intact_bytes = frame.end
        self.sequence_at_intact = frame.sequence + 1

    def _take_pieces(self, frame: Frame, window: FileWindow) -> None:
        if self._heads_only:
            return
        payload = self._description(frame, window)
        try:
            if payload is None:
                raise TraceFormatError("its checksum does not hold.")
            for token_id, piece in decode(payload, dict[int, bytes]).items():
                self.pieces.setdefault(token_id, piece)
        except TraceFormatError as error:
            self._lose(LossKind.PIECES, frame, f"bytes of some tokens cannot be read: {error}")

    def _take_column(self, frame: Frame, entry: ArmIndex, window: FileWindow) -> None:
        if frame.kind in _EAGER and window.payload(frame) is None:
            return  # named with the request, whose commit asks for it
        columns = entry.frames.setdefault(frame.request, {})
        if frame.request in entry.commits:
            columns.setdefault(frame.kind, frame)
        else:
            columns[frame.kind] = frame  # of two, the one nearer to the commit belongs to it

    def _take_description(self, frame: Frame, entry: ArmIndex, window: FileWindow) -> None:
        if frame.kind == Kind.REQUEST:
            entry.highest_request = max(entry.highest_request, frame.request)
            if self._heads_only:
                self._advance(frame)
                return
        payload = self._description(frame, window)
        try:
            if payload is None:
                raise TraceFormatError("its checksum does not hold.")
            self._decode_description(frame, entry, payload)
        except TraceFormatError as error:
            if frame.kind == Kind.REQUEST:
                entry.damaged_commits.add(frame.request)
            else:
                what = "description" if frame.kind == Kind.ARM else "end"
                self._lose(LossKind.ARM, frame, f"the {what} of arm {frame.arm} cannot be read: {error}")
        self._advance(frame)

    def _description(self, frame: Frame, window: FileWindow) -> bytes | None:
        if frame.payload_bytes > MAX_DESCRIPTION_BYTES:
            return None
        return window.payload(frame)

    def _decode_description(self, frame: Frame, entry: ArmIndex, payload: bytes) -> None:
        if frame.kind == Kind.ARM:
            arm = decode(payload, Arm)
            if arm.index != frame.arm:
                raise TraceFormatError(f"it calls itself arm {arm.index}.")
            entry.arm = entry.arm or arm
        elif frame.kind == Kind.ARM_END:
            entry.end = entry.end or decode(payload, ArmEnd)
        else:
            commit = decode(payload, Commit)
            request = commit.request
            if request.index != frame.request or request.index < 0:
                raise TraceFormatError(f"it calls itself request {request.index}.")
            if request.index in entry.commits:
                self._lose(LossKind.DOUBLED_FRAME, frame, f"request {request.index} is there twice.")
                return
            entry.commits[request.index] = request
            entry.commit_sequence[request.index] = frame.sequence
            entry.manifests[request.index] = commit.columns

    def _lose(self, kind: LossKind, frame: Frame, sentence: str) -> None:
        self._losses.append(
            Loss(
                kind=kind,
                sentence=f"arm {frame.arm}: {sentence}" if frame.arm >= 0 else sentence,
                arm=frame.arm if frame.arm >= 0 else None,
                request=frame.request if frame.request >= 0 else None,
                offset=frame.offset,
            )
        )

    def _find_derived(self) -> list[Loss]:
        """Losses that follow from what is there: missing requests, columns, descriptions."""
        found: list[Loss] = []
        if self._heads_only:
            return found
        for number, entry in sorted(self._arms.items()):
            found += entry.losses(number)
            if len(found) > MOST_LOSSES:
                raise TraceFormatError(f"{self.path} has lost more than {MOST_LOSSES} requests and columns.")
        return found
