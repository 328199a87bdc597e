"""Sequence numbers: dropped, doubled and swapped frames show by them."""

from __future__ import annotations

from bisect import bisect_right

from tracer.tracefile.frames import Frame
from tracer.tracefile.losses import Loss, LossKind

_MOST_RANGES = 10_000


class SequenceCheck:
    """Follows the numbers of frames; a gap is a loss unless its frames turn up later."""

    def __init__(self, first: int) -> None:
        self._next = first + 1
        self._last: Frame | None = None
        self._missing: list[tuple[int, int, Frame | None, Frame]] = []
        """Ranges [from, to) with the frames before and after."""
        self._noted: list[Loss] = []

    def accept(self, frame: Frame) -> bool:
        """Take note of a frame; False when the same frame was there before."""
        if frame.sequence >= self._next:
            if frame.sequence > self._next and len(self._missing) < _MOST_RANGES:
                self._missing.append((self._next, frame.sequence, self._last, frame))
            self._next = frame.sequence + 1
            self._last = frame
            return True
        at = bisect_right(self._missing, frame.sequence, key=lambda missing: missing[0]) - 1
        if at >= 0 and frame.sequence < self._missing[at][1]:
            low, high, before, after = self._missing[at]
            halves = [(low, frame.sequence), (frame.sequence + 1, high)]
            self._missing[at : at + 1] = [(a, b, before, after) for a, b in halves if a < b]
            self._note(LossKind.OUT_OF_ORDER, frame, "stands after frames that were written later")
            return True
        self._note(LossKind.DOUBLED_FRAME, frame, "has the number of an earlier frame and is left out")
        return False

    def losses(self) -> list[Loss]:
        """What the numbers show."""
        found = list(self._noted)
        for low, high, before, after in self._missing:
            count = high - low
            frames = "1 frame is" if count == 1 else f"{count} frames are"
            found.append(
                Loss(
                    kind=LossKind.MISSING_FRAMES,
                    sentence=f"{frames} missing between {_place(before)} and {_place(after)}.",
                    arm=before.arm if before is not None and before.arm >= 0 else None,
                    offset=after.offset,
                )
            )
        return found

    def _note(self, kind: LossKind, frame: Frame, what: str) -> None:
        if len(self._noted) < _MOST_RANGES:
            sentence = f"a frame of {_place(frame)} at byte {frame.offset} {what}."
            arm = frame.arm if frame.arm >= 0 else None
            request = frame.request if frame.request >= 0 else None
            self._noted.append(
                Loss(kind=kind, sentence=sentence, arm=arm, request=request, offset=frame.offset)
            )


def _place(frame: Frame | None) -> str:
    if frame is None or frame.arm < 0:
        return "the header" if frame is None else "a list of pieces"
    return f"arm {frame.arm}" + (f", request {frame.request}" if frame.request >= 0 else "")
