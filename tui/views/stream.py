"""The token streams of a pair of arms, with the marks of every position."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from replay.verdicts import RequestVerdict, Verdict
from tracer.columns import Alternatives, PathColumns, PositionFlag, margins
from tracer.episode import Request, StopReason
from tui.trace_model import ArmPair, TraceModel
from tui.view_model import Mark, StreamRequest
from tui.views.wording import next_lines

_NO_IDS = np.empty(0, np.int32)


class EpisodeStream:
    """Reads paths at once (they are small) and alternatives only of requests that are drawn."""

    def __init__(self, model: TraceModel, pair: ArmPair) -> None:
        self._model, self._pair = model, pair
        self._marks: dict[int, NDArray[np.uint8]] = {}

    @property
    def label_a(self) -> str:
        return self._model.label(self._pair.a)

    @property
    def label_b(self) -> str | None:
        return None if self._pair.b is None else self._model.label(self._pair.b)

    @cached_property
    def requests(self) -> tuple[StreamRequest, ...]:
        model, pair = self._model, self._pair
        count = max((len(model.requests(arm)) for arm in (pair.a, pair.b) if arm is not None), default=0)
        return tuple(self._request(index) for index in range(count))

    def text(self, token_id: int) -> str:
        return self._model.text(token_id)

    def marks(self, request: int) -> NDArray[np.uint8]:
        """uint8[positions] of Mark; the near tie is the baseline's, or the arm's where it ends later."""
        found = self._marks.get(request)
        if found is None:
            found = self._marks[request] = self._read_marks(request)
        return found

    def _request(self, index: int) -> StreamRequest:
        model, pair = self._model, self._pair
        a, b = model.request(pair.a, index), model.request(pair.b, index)
        verdict = pair.verdicts.get(index)
        flip = verdict.flip if verdict is not None else None
        b_ids = None if pair.b is None else self._ids(pair.b, b)
        return StreamRequest(
            index=index,
            heading=_heading(index, a or b, a, b, verdict, two_arms=pair.b is not None),
            a_ids=self._ids(pair.a, a),
            b_ids=b_ids,
            verdict=verdict.verdict if verdict is not None else None,
            flip=flip.position if flip is not None else None,
            a_next=next_lines(a),
            b_next=next_lines(b),
        )

    def _ids(self, arm: int, request: Request | None) -> NDArray[np.int32]:
        return _NO_IDS if request is None else self._model.path(arm, request.index).token_ids

    def _read_marks(self, place: int) -> NDArray[np.uint8]:
        request = self.requests[place]
        marks = np.zeros(request.positions, np.uint8)
        sides = [(self._pair.a, request.a_ids), (self._pair.b, request.b_ids)]
        for arm, ids in sides:
            if arm is not None and ids is not None and len(ids):
                self._mark_side(marks, arm, request.index, len(ids))
        if request.flip is not None:
            marks[request.flip + 1 :] |= np.uint8(Mark.AFTER)
            if request.flip < len(marks):
                marks[request.flip] |= np.uint8(Mark.FLIP)
        elif request.verdict is Verdict.DOWNSTREAM:
            marks |= np.uint8(Mark.AFTER)
        return marks

    def _mark_side(self, marks: NDArray[np.uint8], arm: int, index: int, n: int) -> None:
        path = self._model.path(arm, index)
        listed = self._model.alternatives(arm, index)
        near, tie, forced, unobserved = _facts(path, listed, self._model.near_tie)
        part = marks[:n]
        part[near] |= np.uint8(Mark.NEAR_TIE)
        part[tie] |= np.uint8(Mark.EXACT_TIE)
        part[forced] |= np.uint8(Mark.FORCED)
        part[unobserved] |= np.uint8(Mark.UNOBSERVED)


def _facts(
    path: PathColumns, listed: Alternatives | None, near_tie: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """(near tie, exact tie, forced, unobserved), bool[n] each."""
    flags = path.flags
    forced = (flags & PositionFlag.FORCED) != 0
    tie = (flags & PositionFlag.EXACT_TIE) != 0
    unobserved = (flags & (PositionFlag.VALUE | PositionFlag.ALTERNATIVES)) == 0
    if listed is None:
        return np.zeros(len(path), np.bool_), tie, forced, unobserved
    with np.errstate(invalid="ignore"):
        near = margins(listed, flags) < near_tie
    return near, tie, forced, unobserved


def _heading(
    index: int,
    request: Request | None,
    a: Request | None,
    b: Request | None,
    verdict: RequestVerdict | None,
    *,
    two_arms: bool,
) -> str:
    if request is None:
        return f"request {index}"
    words = [f"request {index}"]
    if verdict is not None:
        words.append(str(verdict.verdict))
    words.append(f"turn {request.turn}.{request.step}")
    if a is None:
        words.append("not in the baseline")
    elif two_arms and b is None:
        words.append("not in this arm")
    if request.error is not None:
        words.append("failed")
    elif request.stop is StopReason.CUT:
        words.append("cut off")
    return " · ".join(words)
