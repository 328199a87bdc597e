"""The record of a flip: both tokens, their ranks and values in both arms, both margins, the drift."""

from __future__ import annotations

import numpy as np

from replay.divergence.numbers import Floats, Numbers, distance, gap_changes, listed_drift
from replay.divergence.readable import Side
from replay.divergence.request_verdict import Detail, RequestPair
from replay.verdicts import Flip, FlipSide
from tracer.columns import PositionFlag, margins
from tracer.episode import Request


def describe_flip(pair: RequestPair, position: int, near_tie: float) -> Flip:
    """The flip at ``position``; reads the alternatives of this request in both arms.

    ``near_tie`` is a margin (natural-log units). Triage and sentence are added later.
    """
    a, b = pair.listed_a, pair.listed_b
    token_a, token_b = _token(a, position), _token(b, position)
    side_a = _side(pair.a, pair.request_a, a, position, token_a, token_b)
    side_b = _side(pair.b, pair.request_b, b, position, token_b, token_a)
    drift = listed_drift(a, b, pair.compared)
    margin = side_a.margin if side_a.margin is not None else side_b.margin
    need, is_bound = least_drift(side_a, side_b, a, b, position)
    return Flip(
        position=position,
        a=side_a,
        b=side_b,
        scale=pair.request_a.scale,
        length_difference=token_a is None or token_b is None,
        drift_at=_at(drift, position),
        drift_before=_largest_before(drift, position),
        drift_from=pair.drift_from(Detail.ALTERNATIVES),
        gap_change=_at(gap_changes(a, b, pair.compared), position),
        raw_change=_raw_change(pair, position),
        near_tie=None if margin is None else margin < near_tie,
        least_drift=need,
        least_drift_is_bound=is_bound,
    )


def least_drift(
    side_a: FlipSide, side_b: FlipSide, a: Numbers, b: Numbers, position: int
) -> tuple[float | None, bool]:
    """(half of the swing between the two tokens, whether that is only a lower bound).

    In the baseline its token leads the other's by g_a ≥ 0; in the other arm the lead is g_b ≥ 0 the
    other way. g_a + g_b = Δ(own) − Δ(other's) is at most twice the largest change of a single token,
    so a flip proves a drift of at least (g_a + g_b) / 2. A token that is not in a list is below its end.
    """
    if side_a.token_id is None or side_b.token_id is None:
        # The arm that ended preferred the end; the other led it by at least its margin.
        margin = side_a.margin if side_b.token_id is None else side_b.margin
        return (None, False) if margin is None else (margin / 2, True)
    leads = (_lead(side_a, a, position), _lead(side_b, b, position))
    known = [lead for lead, _ in leads if lead is not None]
    if not known:
        return None, False
    return sum(known) / 2, len(known) < 2 or any(is_bound for _, is_bound in leads)


def _lead(side: FlipSide, numbers: Numbers, position: int) -> tuple[float | None, bool]:
    """(lead of the arm's own token over the other's, whether it is a lower bound); forced: no lead."""
    if side.value is None or side.forced:
        return None, False
    if side.other_value is not None:
        lead = side.value - side.other_value
        return (max(lead, 0.0), False) if np.isfinite(lead) else (None, False)
    listed = numbers.alternatives
    if listed is None or listed.counts[position] == 0:
        return None, False
    lead = side.value - float(listed.values[position, int(listed.counts[position]) - 1])
    return (max(lead, 0.0), True) if np.isfinite(lead) else (None, False)


def _side(
    side: Side, request: Request, numbers: Numbers, position: int, own: int | None, other: int | None
) -> FlipSide:
    if own is None:
        return FlipSide(token_id=None, why_no_margin="this arm had ended")
    original = int(side.trace.path(side.index, request.index).token_ids[position])
    flag = int(numbers.path.flags[position])
    forced = bool(flag & PositionFlag.FORCED)
    margin, why = _margin(numbers, request, position, flag)
    value = None
    if numbers.path.chosen_values is not None and flag & PositionFlag.VALUE:
        value = float(numbers.path.chosen_values[position])
    other_rank, other_value = _look_up(numbers, position, other)
    return FlipSide(
        token_id=original,
        piece=side.trace.piece(original),
        value=value,
        rank=_look_up(numbers, position, own)[0],
        other_value=other_value,
        other_rank=other_rank,
        margin=margin,
        exact_tie=bool(flag & PositionFlag.EXACT_TIE) or margin == 0.0,
        forced=forced,
        why_no_margin=why,
    )


def _margin(numbers: Numbers, request: Request, position: int, flag: int) -> tuple[float | None, str | None]:
    """(margin, why there is none)."""
    if flag & PositionFlag.FORCED:
        return None, "forced by a grammar or by stop handling"
    if flag & PositionFlag.MERGED:
        return None, "one entry covered several tokens"
    listed = numbers.alternatives
    if listed is None:
        return None, request.not_observed.get("alternatives", "alternatives were not observed")
    if listed.counts[position] < 2 or listed.k < 2:
        return None, "fewer than two alternatives were observed"
    margin = float(margins(listed, numbers.path.flags)[position])
    return (margin, None) if np.isfinite(margin) else (None, "a value is not finite")


def _look_up(numbers: Numbers, position: int, token: int | None) -> tuple[int | None, float | None]:
    """(rank from 0, value) of a token in an arm's own list; None where it is not there."""
    listed = numbers.alternatives
    if listed is None or token is None:
        return None, None
    places = np.flatnonzero(listed.ids[position, : int(listed.counts[position])] == token)
    if not places.size:
        return None, None
    return int(places[0]), float(listed.values[position, places[0]])


def _token(numbers: Numbers, position: int) -> int | None:
    ids = numbers.path.token_ids
    return int(ids[position]) if position < len(ids) else None


def _at(values: Floats, position: int) -> float | None:
    if position >= len(values) or np.isnan(values[position]):
        return None
    return float(values[position])


def _largest_before(drift: Floats, position: int) -> float | None:
    before = drift[:position]
    return None if np.isnan(before).all() else float(np.nanmax(before))


def _raw_change(pair: RequestPair, position: int) -> float | None:
    """Largest change of a raw logit over the whole vocabulary; None without full rows of both arms."""
    for side, request in ((pair.a, pair.request_a), (pair.b, pair.request_b)):
        if position >= pair.compared or not side.trace.has_rows(side.index, request.index):
            return None
    row_a = pair.a.trace.rows(pair.a.index, pair.request_a.index)
    row_b = pair.b.trace.rows(pair.b.index, pair.request_b.index)
    if row_a is None or row_b is None or row_a.shape[1] != row_b.shape[1]:
        return None
    return float(distance(row_a[position].astype(np.float64), row_b[position].astype(np.float64)).max())
