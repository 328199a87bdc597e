"""Everything that a trace says: every arm against its baseline and against its own repeats.

Nothing here reads a column itself; ``request_verdict`` does, and no more than the level of detail needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest

from msgspec.structs import replace

from replay.divergence.assessment import assess_arm
from replay.divergence.attribution import attribute, repeats_by_arm
from replay.divergence.flip import describe_flip
from replay.divergence.guards import FOLLOWING, mismatches
from replay.divergence.pairing import (
    ArmGroup,
    arm_groups,
    default_baselines,
    group_by_arm,
    resolve_arm,
    same_group,
)
from replay.divergence.readable import ReadableTrace, Side
from replay.divergence.request_verdict import Detail, Judged, RequestPair, judge, with_lists
from replay.divergence.sentence import explain
from replay.divergence.triage import OthersDrift, triage
from replay.verdicts import Comparison, DriftFrom, EpisodeAnalysis, RequestVerdict, Triage, Verdict
from tracer.episode import Request, Way

DEFAULT_NEAR_TIE = 0.1
"""Margin in natural-log units. The published flip rates by margin change most between below and above it."""


def analyse(
    trace: ReadableTrace,
    *,
    baseline: str | int | None = None,
    anyway: bool = False,
    near_tie: float = DEFAULT_NEAR_TIE,
    detail: Detail | str = Detail.ALTERNATIVES,
) -> EpisodeAnalysis:
    """Assess every arm, compare each with its baseline, and each repeat with its repeat 0.

    baseline: index or label of an arm; default: the first verified cold arm, else the recording.
    anyway: compare in spite of guards that do not hold (they are still named).
    detail: ``path`` reads the top-k lists only for flips, and drift is then that of the chosen token.
    """
    detail = Detail(detail)
    assessments = {arm.index: assess_arm(trace, arm.index) for arm in trace.arms}
    groups = arm_groups(trace)
    labels = {arm.index: arm.label for arm in trace.arms}
    controls = tuple(
        compare_arms(trace, first, again, anyway=anyway, near_tie=near_tie, detail=detail)
        for group in groups
        for first, again in group.controls()
    )
    overall, by_way = default_baselines(trace, assessments)
    if baseline is not None:
        overall = resolve_arm(trace, baseline)
        by_way = dict.fromkeys(Way, overall)
    homes = group_by_arm(groups)
    repeats = repeats_by_arm(homes, controls)
    comparisons = tuple(
        attribute(
            compare_arms(trace, a, b, anyway=anyway, near_tie=near_tie, detail=detail),
            repeats,
            assessments,
            labels,
        )
        for a, b in _pairs(trace, homes, by_way)
    )
    return EpisodeAnalysis(
        baseline=overall,
        assessments=tuple(assessments.values()),
        comparisons=comparisons,
        controls=controls,
        near_tie_threshold=near_tie,
    )


def compare_arms(
    trace: ReadableTrace,
    a: int,
    b: int,
    *,
    anyway: bool = False,
    near_tie: float = DEFAULT_NEAR_TIE,
    detail: Detail | str = Detail.ALTERNATIVES,
) -> Comparison:
    """Arm ``b`` against baseline ``a`` of one trace; refused, with reasons, when a guard does not hold."""
    return compare_across((trace, a), (trace, b), anyway=anyway, near_tie=near_tie, detail=detail)


def compare_across(
    a: tuple[ReadableTrace, int],
    b: tuple[ReadableTrace, int],
    *,
    anyway: bool = False,
    near_tie: float = DEFAULT_NEAR_TIE,
    detail: Detail | str = Detail.ALTERNATIVES,
) -> Comparison:
    """As ``compare_arms``, for arms of two traces of one episode (another engine configuration)."""
    side_a, side_b = Side(*a), Side(*b)
    broken = mismatches(side_a, side_b)
    requests: tuple[RequestVerdict, ...] = ()
    if anyway or not broken:
        requests = _compare_requests(side_a, side_b, near_tie, Detail(detail))
    return Comparison(
        baseline=side_a.index,
        arm=side_b.index,
        within_arm=side_a.trace is side_b.trace and same_group(side_a.arm, side_b.arm),
        requests=requests,
        mismatches=broken,
    )


def _pairs(
    trace: ReadableTrace, homes: Mapping[int, ArmGroup], by_way: Mapping[Way, int]
) -> Iterator[tuple[int, int]]:
    """(baseline, arm) for every arm outside its baseline's own group, repeat i with repeat i."""
    for arm in trace.arms:
        chosen = by_way.get(arm.way)
        if chosen is None:
            continue
        home = homes[chosen]
        if home is not homes[arm.index]:
            yield home.partner(arm), arm.index


def _compare_requests(a: Side, b: Side, near_tie: float, detail: Detail) -> tuple[RequestVerdict, ...]:
    judged = _judge_all(a, b, detail)
    if not any(one.flipped for one in judged):
        return tuple(one.verdict for one in judged)
    others = _others_drift(judged)

    @cache
    def others_in_full() -> OthersDrift:
        if any(one.verdict.drift_from is DriftFrom.CHOSEN for one in judged):
            return _others_drift([_in_full(a, b, one) for one in judged])
        return others

    return tuple(_with_flip(place, one, others, others_in_full, near_tie) for place, one in enumerate(judged))


def _judge_all(a: Side, b: Side, detail: Detail) -> list[Judged]:
    judged: list[Judged] = []
    flipped = False
    for request_a, request_b in zip_longest(a.trace.requests(a.index), b.trace.requests(b.index)):
        if request_a is None or request_b is None:
            one = Judged(_unmatched(a, b, request_a, request_b, flipped))
        else:
            one = judge(RequestPair(a, b, request_a, request_b), flipped_before=flipped, detail=detail)
        flipped = flipped or one.verdict.verdict is Verdict.FLIPPED
        judged.append(one)
    return judged


def _in_full(a: Side, b: Side, one: Judged) -> Judged:
    """The same with the drift of both lists, where only that of the chosen token was read."""
    if one.verdict.drift_from is not DriftFrom.CHOSEN:
        return one
    i = one.verdict.request
    pair = one.flipped or RequestPair(a, b, a.trace.requests(a.index)[i], b.trace.requests(b.index)[i])
    return with_lists(one, pair)


def _others_drift(judged: Sequence[Judged]) -> OthersDrift:
    return OthersDrift([one.agreeing for one in judged], [one.verdict.drift_from for one in judged])


def _unmatched(
    a: Side, b: Side, request_a: Request | None, request_b: Request | None, flipped: bool
) -> RequestVerdict:
    """The verdict of a request that only one arm made."""
    there, missing = (request_a, b) if request_b is None else (request_b, a)
    assert there is not None, "one of the two arms made this request"
    reason = f"{missing.arm.label} has no request {there.index}"
    if not missing.complete or missing.arm.way in FOLLOWING:
        verdict = Verdict.INCOMPLETE
    elif flipped:
        verdict = Verdict.DOWNSTREAM
    else:
        verdict = Verdict.PROMPT_CHANGED
    return RequestVerdict(
        request=there.index,
        verdict=verdict,
        reason=reason,
        exposure_a=None if request_a is None else request_a.exposure,
        exposure_b=None if request_b is None else request_b.exposure,
    )


def _with_flip(
    place: int,
    one: Judged,
    others: OthersDrift,
    others_in_full: Callable[[], OthersDrift],
    near_tie: float,
) -> RequestVerdict:
    """The verdict, with its flip described and held against the drift of the other requests.

    What lies within the drift that was read lies within all of it. Whatever else is said needs the
    lists, so that the triage does not depend on the level of detail.
    """
    pair = one.flipped
    if pair is None:
        return one.verdict
    assert pair.flip_position is not None, "a flipped pair has a flip position"
    described = describe_flip(pair, pair.flip_position, near_tie)
    flip = triage(described, pair, others.without(place))
    if flip.triage is not Triage.WITHIN_DRIFT and others_in_full() is not others:
        flip = triage(described, pair, others_in_full().without(place))
    return replace(one.verdict, flip=replace(flip, sentence=explain(flip, pair.a.arm, pair.b.arm)))
