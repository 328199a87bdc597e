"""What a reader could not read, by name: nothing is ever missing silently."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class LossKind(StrEnum):
    """What sort of thing was lost."""

    TORN_TAIL = "torn-tail"
    """The file ends in the middle of a frame: the writer was killed, or is writing now."""
    UNCOMMITTED = "uncommitted"
    """A request's columns are there, its description is not."""
    DAMAGED_BYTES = "damaged-bytes"
    MISSING_FRAMES = "missing-frames"
    DOUBLED_FRAME = "doubled-frame"
    OUT_OF_ORDER = "out-of-order"
    REQUEST = "request"
    """A request of an arm cannot be read at all."""
    COLUMN = "column"
    """A request can be read, one of its columns cannot."""
    ARM = "arm"
    """An arm's description or end cannot be read."""
    PIECES = "pieces"


class Loss(Struct, frozen=True, kw_only=True):
    """One thing that is lost, and where."""

    kind: LossKind
    sentence: str
    arm: int | None = None
    request: int | None = None
    column: str | None = None
    offset: int | None = None
    """First byte concerned, counted from the start of the file."""
    size_bytes: int | None = None
    at_end: bool = False
    """It concerns only the end of the file, as when the writer was killed or still writes."""
