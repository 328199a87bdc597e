"""Where each token of a stream stands: which line, which cell. Arithmetic only, no drawing.

A request takes one heading line, then bands of positions that fit the width, then what the agent
did next, then an empty line. A band is one line an arm and one line of signs.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from rich.cells import cell_len

from tracer.clean_text import NEWLINE_SIGN
from tui.view_model import Stream, StreamRequest

GUTTER = 6
"""Cells at the left of a band, for the position of its first token."""


class LineKind(StrEnum):
    """What one line of the stream holds."""

    HEADING = "heading"
    BASELINE = "baseline"
    ARM = "arm"
    SIGNS = "signs"
    NEXT = "next"
    EMPTY = "empty"


class Line(Struct, frozen=True):
    """One line of the stream. ``start`` up to ``end`` are positions; ``row`` counts NEXT lines."""

    kind: LineKind
    request: int
    """Place in the stream's requests, not the request's own number."""
    start: int = 0
    end: int = 0
    row: int = 0


class Block(Struct, frozen=True):
    """One request. bands: int[bands + 1], first positions and the end. cells: int[positions]."""

    bands: NDArray[np.int64]
    cells: NDArray[np.int64]
    next_lines: tuple[tuple[str, str], ...]
    """(which arm, text); which = "a", "b", or "both"."""

    @property
    def band_count(self) -> int:
        return len(self.bands) - 1


class StreamLayout:
    """The lines of a whole stream at one width."""

    def __init__(self, stream: Stream, width: int, *, ids: bool) -> None:
        self.ids = ids
        self.room = max(width - GUTTER, 8)
        self.lines_per_band = 3 if stream.label_b is not None else 2
        self._widths = _token_widths(stream, ids=ids, longest=self.room)
        self.blocks = [self._block(request) for request in stream.requests]
        heights = [self._height(block) for block in self.blocks]
        self.tops = [0, *np.cumsum(heights).tolist()]

    @property
    def height(self) -> int:
        return int(self.tops[-1])

    def line(self, y: int) -> Line | None:
        """What stands on line y; None past the end."""
        if not 0 <= y < self.height:
            return None
        place = bisect_right(self.tops, y) - 1
        block, y = self.blocks[place], y - self.tops[place]
        if y == 0:
            return Line(LineKind.HEADING, place)
        band, within = divmod(y - 1, self.lines_per_band)
        if band < block.band_count:
            kinds = (LineKind.BASELINE, LineKind.ARM, LineKind.SIGNS)
            kind = LineKind.SIGNS if within == self.lines_per_band - 1 else kinds[within]
            return Line(kind, place, int(block.bands[band]), int(block.bands[band + 1]))
        row = y - 1 - block.band_count * self.lines_per_band
        if row < len(block.next_lines):
            return Line(LineKind.NEXT, place, row=row)
        return Line(LineKind.EMPTY, place)

    def line_of(self, request: int, position: int) -> int:
        """The baseline's line of a position; the heading where the request has no token."""
        block = self.blocks[request]
        if not block.band_count:
            return int(self.tops[request])
        band = self._band_of(block, position)
        return int(self.tops[request]) + 1 + band * self.lines_per_band

    def cell_of(self, request: int, position: int) -> int:
        """How many cells from the gutter a position starts."""
        block = self.blocks[request]
        start = int(block.bands[self._band_of(block, position)]) if block.band_count else 0
        return int(block.cells[start:position].sum())

    def position_at(self, line: Line, cell: int) -> int | None:
        """The position under a cell (counted from the gutter) of a band's line."""
        if line.end <= line.start:
            return None
        ends = np.cumsum(self.blocks[line.request].cells[line.start : line.end])
        place = int(np.searchsorted(ends, max(cell, 0), side="right"))
        return line.start + place if place < len(ends) else None

    def vertical(self, request: int, position: int, lines: int) -> tuple[int, int]:
        """The position that stands this many bands below (or above) another, in the same column."""
        target = self.line_of(request, position) + lines * self.lines_per_band
        cell = self.cell_of(request, position)
        step = 1 if lines > 0 else -1
        target = min(max(target, 0), self.height - 1)
        while 0 <= target < self.height:
            line = self.line(target)
            if line is not None and line.end > line.start:
                at = self.position_at(line, cell)
                return line.request, line.end - 1 if at is None else at
            target += step
        return request, position

    def _band_of(self, block: Block, position: int) -> int:
        band = int(np.searchsorted(block.bands, position, side="right")) - 1
        return min(max(band, 0), block.band_count - 1)

    def _height(self, block: Block) -> int:
        return 2 + block.band_count * self.lines_per_band + len(block.next_lines)

    def _block(self, request: StreamRequest) -> Block:
        cells, newline = self._cells(request)
        return Block(_bands(cells, newline, self.room), cells, _next_lines(request))

    def _cells(self, request: StreamRequest) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        ids, widths, newlines = self._widths
        n = request.positions
        cells = np.zeros(n, np.int64)
        newline = np.zeros(n, np.bool_)
        for side in (request.a_ids, request.b_ids):
            if side is None or not len(side):
                continue
            at = np.searchsorted(ids, side)
            cells[: len(side)] = np.maximum(cells[: len(side)], widths[at])
            newline[: len(side)] |= newlines[at]
        return cells, newline


def _token_widths(
    stream: Stream, *, ids: bool, longest: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Sorted unique ids, the cells that each takes, and whether it ends a line."""
    sides = [side for r in stream.requests for side in (r.a_ids, r.b_ids) if side is not None]
    every = np.sort(np.concatenate(sides)) if sides else np.empty(0, np.int32)
    # Not np.unique: it imports numpy.ma, for which the first paint would wait.
    unique = every[np.diff(every, prepend=-1 if not len(every) else every[0] - 1) != 0]
    if ids:
        widths = np.array([len(str(i)) + 1 for i in unique.tolist()], np.int64)
        return unique, np.minimum(widths, longest), np.zeros(len(unique), np.bool_)
    texts = [stream.text(i) for i in unique.tolist()]
    widths = np.array([max(cell_len(text), 1) for text in texts], np.int64)
    newlines = np.array([text.endswith(NEWLINE_SIGN) for text in texts], np.bool_)
    return unique, np.minimum(widths, longest), newlines


def _bands(cells: NDArray[np.int64], newline: NDArray[np.bool_], room: int) -> NDArray[np.int64]:
    """First positions of the bands, and the end; a band breaks after a newline or when it is full."""
    n = len(cells)
    ends = np.cumsum(cells).tolist()
    breaks = [*(np.flatnonzero(newline) + 1).tolist(), n]
    starts, start, before, place = [0], 0, 0, 0
    while start < n:
        # Lists and bisect: a search by numpy for each band took ten times as long.
        end = max(bisect_right(ends, before + room, start), start + 1)
        while breaks[place] <= start:
            place += 1
        start = min(end, breaks[place])
        before = ends[start - 1]
        starts.append(start)
    return np.array(starts, np.int64)


def _next_lines(request: StreamRequest) -> tuple[tuple[str, str], ...]:
    if request.b_ids is None or request.a_next == request.b_next:
        return tuple(("both", text) for text in request.a_next)
    return (*(("a", text) for text in request.a_next), *(("b", text) for text in request.b_next))
