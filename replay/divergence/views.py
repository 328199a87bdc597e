"""What the screen shows of a pair of arms, computed here so that the screen computes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.divergence.guards import FOLLOWING
from replay.divergence.numbers import Booleans, Floats, Numbers, equal_rows, gap_changes
from replay.divergence.readable import ReadableTrace, Side
from replay.divergence.request_verdict import Detail, RequestPair
from replay.verdicts import DriftFrom
from tracer.columns import margins
from tracer.episode import Request, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class PositionDrift:
    """Numbers of one request in two arms; every array is as long as the longer arm.

    NaN where not comparable or not observed: after a flip there is no drift, past its end an arm has
    no margin. Drift and gap change as ``RequestVerdict`` defines them; margins on either scale.
    """

    drift: Floats
    drift_from: DriftFrom
    margin_a: Floats
    margin_b: Floats
    gap_change: Floats
    rows_equal: Booleans | None
    """bool[compared positions]: the whole rows are bit-identical; None without fingerprints."""
    flip: int | None


@dataclass(frozen=True, slots=True)
class AlignedTokens:
    """Both arms' output ids of one request, position under position; −1 past an arm's end.

    ids_a, ids_b: int32[longer]. flip: first position at which they differ, None = the same.
    """

    ids_a: NDArray[np.int32]
    ids_b: NDArray[np.int32]
    flip: int | None


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the agent did with one answer."""

    tool_calls: tuple[ToolCall, ...]
    tool_results: tuple[ToolResult, ...]
    text: str
    known: bool = True
    """False: this arm follows recorded prompts, so its own answer went to no agent."""


@dataclass(frozen=True, slots=True)
class AfterFlip:
    """How far two arms went apart after a flip in one request."""

    step_a: NextStep
    step_b: NextStep
    same_calls: bool | None
    """The agent made the same tool calls in both arms, so the flip changed words only."""
    edit_distance: int
    """Least insertions, deletions and replacements between both token sequences of this request."""
    shared_tail_tokens: int
    """Tokens that both answers share at their end: the flip healed."""
    later_requests: int
    """Later requests that at least one arm made."""
    later_changed: int
    """Of these, how many have another prompt or other tokens, or exist in one arm only."""


def position_drift(trace: ReadableTrace, a: int, b: int, request: int) -> PositionDrift:
    """Drift and margins at every position of one request; reads its alternatives in both arms."""
    pair = _pair(trace, a, b, request)
    longer = max(len(pair.numbers_a.path), len(pair.numbers_b.path))
    return PositionDrift(
        drift=_padded(pair.drift(Detail.ALTERNATIVES), longer),
        drift_from=pair.drift_from(Detail.ALTERNATIVES),
        margin_a=_padded(_margins(pair.listed_a), longer),
        margin_b=_padded(_margins(pair.listed_b), longer),
        gap_change=_padded(gap_changes(pair.listed_a, pair.listed_b, pair.compared), longer),
        rows_equal=equal_rows(pair.numbers_a.path, pair.numbers_b.path, pair.compared),
        flip=pair.flip_position,
    )


def arm_margins(trace: ReadableTrace, arm: int, request: int) -> Floats:
    """float64[n]: one arm's margins in one request, NaN where there is none."""
    numbers = Numbers(trace.path(arm, request), trace.requests(arm)[request].scale)
    return _margins(numbers.with_lists(trace.alternatives(arm, request)))


def aligned_tokens(trace: ReadableTrace, a: int, b: int, request: int) -> AlignedTokens:
    """Both arms' tokens of one request, position under position; reads the path only."""
    pair = _pair(trace, a, b, request)
    ids_a, ids_b = pair.numbers_a.path.token_ids, pair.numbers_b.path.token_ids
    longer = max(len(ids_a), len(ids_b))
    return AlignedTokens(_padded_ids(ids_a, longer), _padded_ids(ids_b, longer), pair.flip_position)


def after_flip(trace: ReadableTrace, a: int, b: int, request: int) -> AfterFlip:
    """What became of both arms after a flip in ``request``; reads paths only."""
    pair = _pair(trace, a, b, request)
    ids_a, ids_b = pair.numbers_a.path.token_ids, pair.numbers_b.path.token_ids
    requests_a, requests_b = trace.requests(a), trace.requests(b)
    later = max(len(requests_a), len(requests_b)) - request - 1
    shared = min(len(requests_a), len(requests_b)) - request - 1
    changed = sum(_changed(trace, a, b, request + 1 + ahead) for ahead in range(shared))
    flipped = pair.flip_position is not None
    step_a, step_b = _step(pair.a, requests_a[request], flipped), _step(pair.b, requests_b[request], flipped)
    return AfterFlip(
        step_a=step_a,
        step_b=step_b,
        same_calls=step_a.tool_calls == step_b.tool_calls if step_a.known and step_b.known else None,
        edit_distance=edit_distance(ids_a, ids_b),
        shared_tail_tokens=_shared_tail(ids_a, ids_b),
        later_requests=later,
        later_changed=changed + later - shared,
    )


def edit_distance(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """Levenshtein distance of two id sequences, one row of the table at a time (Wagner and Fischer).

    Within a row, the chain of insertions is a running minimum of (cost − column), so numpy does it.
    """
    columns = np.arange(len(b) + 1)
    row = columns.copy()
    for place, token in enumerate(a.tolist(), start=1):
        best = np.empty_like(row)
        best[0] = place
        best[1:] = np.minimum(row[1:] + 1, row[:-1] + (b != token))
        row = np.minimum.accumulate(best - columns) + columns
    return int(row[-1])


def _pair(trace: ReadableTrace, a: int, b: int, request: int) -> RequestPair:
    return RequestPair(Side(trace, a), Side(trace, b), trace.requests(a)[request], trace.requests(b)[request])


def _changed(trace: ReadableTrace, a: int, b: int, request: int) -> bool:
    pair = _pair(trace, a, b, request)
    prompts_differ = pair.request_a.prompt_hash != pair.request_b.prompt_hash
    return prompts_differ or pair.flip_position is not None


def _step(side: Side, request: Request, flipped: bool) -> NextStep:
    """What the agent did; a fixed arm knows it only where its answer is the recorded one."""
    known = bool(request.tool_calls) or not (flipped and side.arm.way in FOLLOWING)
    return NextStep(request.tool_calls, request.tool_results, request.text, known)


def _margins(numbers: Numbers) -> Floats:
    if numbers.alternatives is None:
        return np.full(len(numbers.path), np.nan)
    return margins(numbers.alternatives, numbers.path.flags)


def _shared_tail(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    n = min(len(a), len(b))
    unequal = np.flatnonzero(a[len(a) - n :][::-1] != b[len(b) - n :][::-1])
    return int(unequal[0]) if unequal.size else n


def _padded(values: Floats, length: int) -> Floats:
    return np.concatenate([values, np.full(length - len(values), np.nan)])


def _padded_ids(ids: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    return np.concatenate([ids, np.full(length - len(ids), -1, np.int32)])
