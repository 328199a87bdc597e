"""Is a difference attributable to the cache? Only when both arms repeat themselves and both states hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from replay.divergence.pairing import ArmGroup
from replay.verdicts import ArmAssessment, ArmStatus, Comparison, RequestVerdict, Verdict

_NO_REPEAT = (Verdict.FAILED, Verdict.INCOMPLETE)
"""A request that was not answered twice says nothing about whether it repeats."""
_DIFFERENT = (Verdict.FLIPPED, Verdict.DRIFTED)


@dataclass(slots=True)
class RepeatedRequest:
    """What all repeats of one request of a group add up to."""

    other_numbers: Verdict | None = None
    """The first repeat whose numbers are not known to be equal."""
    other_tokens: Verdict | None = None
    """The first repeat whose tokens are not known to be equal."""
    by_tokens_only: bool = False

    def add(self, control: RequestVerdict) -> None:
        """Take one more repeat into account."""
        if control.verdict is Verdict.IDENTICAL:
            return
        self.other_numbers = self.other_numbers or control.verdict
        unobserved = control.verdict is Verdict.UNOBSERVED
        self.by_tokens_only = self.by_tokens_only or unobserved
        if not (unobserved and control.compared_positions):
            self.other_tokens = self.other_tokens or control.verdict

    def unlike(self, verdict: RequestVerdict) -> Verdict | None:
        """What the arm does instead of repeating itself; for a flip equal tokens are enough of a repeat."""
        return self.other_tokens if verdict.verdict is Verdict.FLIPPED else self.other_numbers


Repeats = Mapping[int, Mapping[int, RepeatedRequest]]
"""Arm → request → what the repeats of the arm's group say about it."""


def repeats_by_arm(homes: Mapping[int, ArmGroup], controls: Sequence[Comparison]) -> Repeats:
    """Every within-arm control, summed up by group once: a trace may have thousands of arms."""
    found: dict[int, dict[int, RepeatedRequest]] = {group.first: {} for group in homes.values()}
    speaking = {arm for first in found for arm in homes[first].repeating()}
    for control in controls:
        if control.arm not in speaking:
            continue
        requests = found[homes[control.arm].first]
        for verdict in control.requests:
            if verdict.verdict not in _NO_REPEAT:
                requests.setdefault(verdict.request, RepeatedRequest()).add(verdict)
    return {arm: found[group.first] for arm, group in homes.items()}


def attribute(
    comparison: Comparison,
    repeats: Repeats,
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
    own = [(labels[s], repeats[s]) for s in sides]
    return replace(comparison, requests=tuple(_attribute(v, state, own) for v in comparison.requests))


def _attribute(
    verdict: RequestVerdict, state: str, sides: Sequence[tuple[str, Mapping[int, RepeatedRequest]]]
) -> RequestVerdict:
    if verdict.verdict not in _DIFFERENT:
        return verdict
    if state:
        return replace(verdict, attributable=False, attribution_reason=state)
    weakest = ""
    for label, own in sides:
        repeated = own.get(verdict.request)
        if repeated is None:
            return replace(verdict, attribution_reason=f"{label} was not repeated")
        unlike = repeated.unlike(verdict)
        if unlike is not None:
            reason = f"{label} does not repeat itself here: {unlike}"
            return replace(verdict, attributable=False, attribution_reason=reason)
        if repeated.by_tokens_only:
            weakest = " (by tokens only)"
    reason = f"both arms repeat themselves here{weakest}, both states are verified, and they differ"
    return replace(verdict, attributable=True, attribution_reason=reason)
