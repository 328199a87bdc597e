"""Where a key leads: from one cursor to the next. Nothing is drawn here."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tracer.errors import UsageError
from tui.trace_model import TraceModel
from tui.view_model import Cursor, Filter, Mark, Stream, StreamRequest

Place = tuple[int, int]
"""(request's own number, position)."""


def clamped(stream: Stream, cursor: Cursor) -> Cursor:
    """The nearest position that exists in the stream."""
    requests = stream.requests
    if not requests:
        return replace(cursor, request=0, position=0)
    request = min(max(cursor.request, 0), len(requests) - 1)
    last = max(requests[request].positions - 1, 0)
    return replace(cursor, request=request, position=min(max(cursor.position, 0), last))


def step_token(stream: Stream, cursor: Cursor, step: int) -> Cursor:
    """One token on or back, over the border of requests too."""
    position, request = cursor.position + step, cursor.request
    if 0 <= position < stream.requests[request].positions:
        return replace(cursor, position=position)
    request += step
    if not 0 <= request < len(stream.requests):
        return cursor
    position = 0 if step > 0 else max(stream.requests[request].positions - 1, 0)
    return replace(cursor, request=request, position=position)


def step_request(listed: Sequence[int], cursor: Cursor, step: int) -> Cursor:
    """The next listed request, at its first token."""
    if not listed:
        return cursor
    place = bisect_left(listed, cursor.request)
    on_it = place < len(listed) and listed[place] == cursor.request
    place = place + step if on_it else (place if step > 0 else place - 1)
    place = min(max(place, 0), len(listed) - 1)
    return cursor if listed[place] == cursor.request else replace(cursor, request=listed[place], position=0)


def to_place(cursor: Cursor, places: Sequence[Place], step: int) -> Cursor | None:
    """The next (or previous) of sorted places; None when there is none on that side."""
    here = (cursor.request, cursor.position)
    later = [p for p in places if (p > here if step > 0 else p < here)]
    if not later:
        return None
    request, position = later[0] if step > 0 else later[-1]
    return replace(cursor, request=request, position=position)


def flips(model: TraceModel, cursor: Cursor) -> list[Place]:
    """Every flip between baseline and arm."""
    verdicts = model.pair(cursor).verdicts.values()
    return sorted((v.request, v.flip.position) for v in verdicts if v.flip is not None)


def near_tie(stream: Stream, cursor: Cursor, step: int) -> Cursor | None:
    """The next near tie before any flip, reading request after request until there is one."""
    for request, first, last in _from_here(stream, cursor, step):
        marks = stream.marks(request.index)
        wanted = np.flatnonzero((marks & (Mark.NEAR_TIE | Mark.EXACT_TIE)).astype(bool))
        found = wanted[(wanted >= first) & (wanted < last)]
        if len(found):
            return replace(cursor, request=request.index, position=int(found[0 if step > 0 else -1]))
    return None


def find_text(stream: Stream, cursor: Cursor, text: str, step: int) -> Cursor | None:
    """The next token at which the text starts, in either arm; case does not matter."""
    wanted = _searchable(text)
    if not wanted:
        return None
    for request, first, last in _from_here(stream, cursor, step):
        places: set[int] = set()
        for ids in (request.a_ids, request.b_ids):
            if ids is not None:
                places |= _occurrences(stream, ids, wanted)
        inside = sorted(p for p in places if first <= p < last)
        if inside:
            return replace(cursor, request=request.index, position=inside[0 if step > 0 else -1])
    return None


def go_to(text: str, cursor: Cursor) -> Cursor:
    """``12`` = request 12, ``12.87`` = its token 87, ``.87`` = token 87 of this request."""
    match = re.fullmatch(r"\s*(\d*)\s*(?:[.:, ]\s*(\d+))?\s*", text)
    if match is None or not (match[1] or match[2]):
        raise UsageError(f"{text!r} is no place; write a request, or request.token, for instance 12.87.")
    request = int(match[1]) if match[1] else cursor.request
    return replace(cursor, request=request, position=int(match[2] or 0))


def next_arm(model: TraceModel, cursor: Cursor) -> Cursor:
    """The next arm that is not the baseline."""
    baseline = model.baseline(cursor)
    arms = [arm.index for arm in model.arms if arm.index != baseline]
    return replace(cursor, arm=_after(arms, cursor.arm)) if arms else cursor


def next_baseline(model: TraceModel, cursor: Cursor) -> Cursor:
    """The next arm as baseline; the chosen arm gives way when it is the same."""
    baseline = _after([arm.index for arm in model.arms], model.baseline(cursor))
    moved = replace(cursor, baseline=baseline)
    return next_arm(model, moved) if cursor.arm == baseline or cursor.arm is None else moved


def next_filter(cursor: Cursor) -> Cursor:
    """The next filter of the requests pane."""
    order = list(Filter)
    return replace(cursor, filter=order[(order.index(cursor.filter) + 1) % len(order)])


def _after(arms: Sequence[int], arm: int | None) -> int | None:
    if not arms:
        return None
    return arms[(arms.index(arm) + 1) % len(arms)] if arm in arms else arms[0]


def _from_here(stream: Stream, cursor: Cursor, step: int) -> Iterator[tuple[StreamRequest, int, int]]:
    """(request, first, last) stretches that lie beyond the cursor, the nearest first."""
    requests = stream.requests
    if not requests:
        return
    here = requests[cursor.request]
    if step > 0:
        yield here, cursor.position + 1, here.positions
        rest: Sequence[StreamRequest] = requests[cursor.request + 1 :]
    else:
        yield here, 0, cursor.position
        rest = requests[: cursor.request][::-1]
    for request in rest:
        yield request, 0, request.positions


def _searchable(text: str) -> str:
    return text.casefold().replace("·", " ").replace("↵", "\n")


def _occurrences(stream: Stream, ids: NDArray[np.int32], wanted: str) -> set[int]:
    """Positions of the tokens in which an occurrence starts."""
    texts = [_searchable(stream.text(i)) for i in ids.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    whole = "".join(texts)
    found: set[int] = set()
    at = whole.find(wanted)
    while at >= 0:
        found.add(int(np.searchsorted(starts, at, side="right")) - 1)
        at = whole.find(wanted, at + 1)
    return found
