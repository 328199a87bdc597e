"""Which arms belong together: groups of repeats, the baseline of an arm, labels.

A GROUP is the arms that should be equal: same state, priming, way, engine configuration, sampling and
source. Its first member is repeat 0; the others are its within-arm controls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from replay.divergence.readable import ReadableTrace
from replay.verdicts import ArmAssessment, ArmStatus
from tracer.episode import Arm, CacheState, Way
from tracer.errors import UsageError
from tracer.resolved import without_resolved


@dataclass(frozen=True)
class ArmGroup:
    """Arms that differ only in their repeat or pass number, in that order."""

    members: tuple[Arm, ...]

    @property
    def arms(self) -> tuple[int, ...]:
        """Indices of the members."""
        return tuple(arm.index for arm in self.members)

    @property
    def first(self) -> int:
        return self.members[0].index

    def partner(self, arm: Arm) -> int:
        """Of this group, the arm that an arm of another group is held against: repeat i with repeat i.

        When this group has fewer repeats (or passes) its first arm answers for the rest.
        """
        return self._by_number.get((arm.repeat, arm.pass_index), self.first)

    def controls(self) -> tuple[tuple[int, int], ...]:
        """(arm, its repeat) for every member but the first.

        A repeat is held against the first arm; a later pass against the first pass of its own chain.
        """
        chain = self._by_number
        return tuple(
            (chain.get((arm.repeat, 0), self.first) if arm.pass_index else self.first, arm.index)
            for arm in self.members[1:]
        )

    def repeating(self) -> frozenset[int]:
        """The members that say whether the arm repeats itself: from a fresh start where there are two.

        A later pass starts on what the pass before left, so it only speaks for itself if nothing else does.
        """
        fresh = frozenset(m.index for m in self.members if m.pass_index == 0)
        return fresh if len(fresh) > 1 else frozenset(self.arms)

    @cached_property
    def _by_number(self) -> Mapping[tuple[int, int], int]:
        """(repeat, pass) → the first member that bears it."""
        return {(m.repeat, m.pass_index): m.index for m in reversed(self.members)}


def arm_groups(trace: ReadableTrace) -> tuple[ArmGroup, ...]:
    """The groups of a trace, in the order in which they were begun."""
    members: dict[Hashable, list[Arm]] = {}
    for arm in trace.arms:
        members.setdefault(_sameness(arm), []).append(arm)
    return tuple(
        ArmGroup(tuple(sorted(arms, key=lambda arm: _order_of_repeats(trace, arm))))
        for arms in members.values()
    )


def group_by_arm(groups: Iterable[ArmGroup]) -> dict[int, ArmGroup]:
    """Arm → the group that it is in."""
    return {arm: group for group in groups for arm in group.arms}


def same_group(a: Arm, b: Arm) -> bool:
    """Whether two arms of one trace belong to one group."""
    return _sameness(a) == _sameness(b)


def resolve_arm(trace: ReadableTrace, label: str | int) -> int:
    """Index of the arm that a user named by index or by label (``cold``, ``warm#1``, ``recording``).

    A label that several arms bear means the first of them.
    """
    if isinstance(label, int) or label.isdecimal():
        index = int(label)
        if index < len(trace.arms):
            return index
        raise UsageError(f"There is no arm {index}: this trace has {len(trace.arms)} arms, counted from 0.")
    for arm in trace.arms:
        if arm.label == label:
            return arm.index
    known = ", ".join(dict.fromkeys(arm.label for arm in trace.arms))
    raise UsageError(f"There is no arm {label!r} in this trace; it has: {known}.")


def default_baselines(
    trace: ReadableTrace, assessments: Mapping[int, ArmAssessment]
) -> tuple[int | None, dict[Way, int]]:
    """(the episode's baseline, baseline by way): the first verified cold arm, else the recording.

    An arm is held against a cold arm that got its prompts in the same way: what a closed loop made of
    its own answers says nothing request by request beside a fixed arm, and forced tokens were no choice.
    A closed loop takes the first that was repeated, be it a recording or a closed loop: without repeats
    there is no control and so no rate.
    """
    verified_cold = [
        arm
        for arm in trace.arms
        if arm.state is CacheState.COLD and assessments[arm.index].status is ArmStatus.VERIFIED
    ]
    recording = next((arm.index for arm in trace.arms if arm.way is Way.RECORDED), None)
    by_way: dict[Way, int] = {}
    for arm in trace.arms:
        if arm.way in by_way:
            continue
        fitting = [other for other in verified_cold if _same_way(other.way, arm.way)]
        if arm.way is Way.CLOSED_LOOP:
            repeats = Counter(_sameness(other) for other in fitting)
            fitting.sort(key=lambda other: repeats[_sameness(other)] < 2)  # stable: else the first
        cold = fitting[0].index if fitting else None
        fallback = recording
        if arm.way is Way.FORCED and arm.source_arm is not None and 0 <= arm.source_arm < len(trace.arms):
            fallback = arm.source_arm
        chosen = cold if cold is not None else fallback
        if chosen is not None:
            by_way[arm.way] = chosen
    first_cold = next((a.index for a in verified_cold if a.way is not Way.FORCED), None)
    overall = first_cold if first_cold is not None else recording
    if Way.RECORDED in by_way and overall is not None:
        by_way[Way.RECORDED] = overall
    if overall is None and trace.arms:
        overall = trace.arms[0].index
    return overall, by_way


def _same_way(cold: Way, way: Way) -> bool:
    """Whether a cold arm's prompts came in a way that can be held against ``way``."""
    if cold is way:
        return True
    if cold is Way.RECORDED:
        return way is not Way.FORCED
    return way is Way.RECORDED and cold is not Way.FORCED


def _sameness(arm: Arm) -> Hashable:
    """What two repeats must have in common.

    A cold recording and its cold replays are repeats of each other: every request stands on its own.
    Under any other state the replay's cache can differ from the recording's as soon as a token does.
    """
    way = Way.FIXED if arm.way is Way.RECORDED and arm.state is CacheState.COLD else arm.way
    source = None if way is Way.FIXED and arm.state is CacheState.COLD else arm.source_arm
    return (
        arm.state,
        arm.priming,
        way,
        source,
        arm.top_k,
        arm.place.carry,
        arm.note,
        msgspec.json.encode((without_resolved(arm.engine), arm.sampling), order="deterministic"),
    )


def _order_of_repeats(trace: ReadableTrace, arm: Arm) -> tuple[bool, bool, int, int, int]:
    """By number; an arm that failed or was cut off comes last, so that it answers for no other."""
    end = trace.end(arm.index)
    return (
        end is None or not end.completed,
        arm.way is not Way.RECORDED,
        arm.repeat,
        arm.pass_index,
        arm.index,
    )
