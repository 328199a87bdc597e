"""Is a difference attributable to the cache? Only when both arms repeat themselves and both states hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from replay.divergence.pairing import ArmGroup, group_of
from replay.verdicts import ArmAssessment, ArmStatus, Comparison, RequestVerdict, Verdict

_NO_REPEAT = (Verdict.FAILED, Verdict.INCOMPLETE)
"""A request that was not answered twice says nothing about whether it repeats."""
_DIFFERENT = (Verdict.FLIPPED, Verdict.DRIFTED)


def attribute(
    comparison: Comparison,
    groups: Sequence[ArmGroup],
    controls: Sequence[Comparison],
    assessments: Mapping[int, ArmAssessment],
    labels: Mapping[int, str],
) -> Comparison:
    """The comparison with ``attributable`` set on every request that differs.

    True: both arms repeat themselves on this request, both states are verified, and they differ.
    False: one of these does not hold. None: they do not differ, or one arm was never repeated.
    """
    if comparison.within_arm:
        return comparison
    sides = (comparison.baseline, comparison.arm)
    unverified = [s for s in sides if assessments[s].status is not ArmStatus.VERIFIED]
    state = "; ".join(f"{labels[s]} is {assessments[s].status}: {assessments[s].reason}" for s in unverified)
    repeats = [_repeats_by_request(group_of(groups, side), controls) for side in sides]
    judged = tuple(_attribute(v, state, repeats, [labels[s] for s in sides]) for v in comparison.requests)
    return replace(comparison, requests=judged)


def _attribute(
    verdict: RequestVerdict,
    state: str,
    repeats: Sequence[Mapping[int, list[RequestVerdict]]],
    labels: Sequence[str],
) -> RequestVerdict:
    if verdict.verdict not in _DIFFERENT:
        return verdict
    if state:
        return replace(verdict, attributable=False, attribution_reason=state)
    weakest = ""
    for own, label in zip(repeats, labels, strict=True):
        found = own.get(verdict.request, [])
        if not found:
            return replace(verdict, attribution_reason=f"{label} was not repeated")
        other = next((v for v in found if not _repeats(v, verdict)), None)
        if other is not None:
            reason = f"{label} does not repeat itself here: {other.verdict}"
            return replace(verdict, attributable=False, attribution_reason=reason)
        if any(v.verdict is Verdict.UNOBSERVED for v in found):
            weakest = " (by tokens only)"
    reason = f"both arms repeat themselves here{weakest}, both states are verified, and they differ"
    return replace(verdict, attributable=True, attribution_reason=reason)


def _repeats(control: RequestVerdict, verdict: RequestVerdict) -> bool:
    """Equal numbers; where there are none, equal tokens are enough for a difference in tokens."""
    if control.verdict is Verdict.IDENTICAL:
        return True
    unobserved = control.verdict is Verdict.UNOBSERVED and control.compared_positions > 0
    return unobserved and verdict.verdict is Verdict.FLIPPED


def _repeats_by_request(
    group: ArmGroup, controls: Sequence[Comparison]
) -> Mapping[int, list[RequestVerdict]]:
    """Request → its verdict in every within-arm control of the group."""
    found: dict[int, list[RequestVerdict]] = {}
    speaking = group.repeating()
    for control in controls:
        if control.arm in speaking:
            for verdict in control.requests:
                if verdict.verdict in _NO_REPEAT:
                    continue
                found.setdefault(verdict.request, []).append(verdict)
    return found
