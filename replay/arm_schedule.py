"""Which arms a replay adds to a file: states × primings × repeats or passes, without those it has.

Imports no numpy, so that a child process can read its options before it loads the engine's library.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from typing import TYPE_CHECKING

from msgspec import Struct

from replay.engine_guard import same_configuration
from tracer.episode import (
    DEFAULT_TOP_K,
    Arm,
    CacheState,
    Carry,
    EngineInfo,
    Priming,
    Way,
    default_priming,
)
from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.tracefile import TraceReader

DEFAULT_STATES = (CacheState.COLD, CacheState.WARM)
DEFAULT_REPEATS = 2


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """What a replay shall add. Plain values only: a child process gets it as JSON."""

    states: tuple[CacheState, ...] = DEFAULT_STATES
    primings: tuple[Priming, ...] = ()
    """For states that fill their cache by serving; none = the default of the state."""
    way: Way = Way.FIXED
    repeats: int = DEFAULT_REPEATS
    passes: int = 1
    """More than 1: so many passes without emptying the caches in between, instead of repeats."""
    source: str | None = None
    """Arm whose prompts are followed, by index or label; None = the recording."""
    anyway: bool = False
    again: bool = False
    """Add new repeats beside those that are there."""
    keep_rows: bool = False
    top_k: int | None = None
    """None = as recorded."""
    requests: int | None = None
    """Only the first so many requests (the screen replays up to the one that is looked at)."""
    carry: Carry = Carry.EMPTIED
    run_id: str | None = None
    command: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.passes < 1:
            raise ValueError("repeats and passes are at least 1")
        if self.passes > 1 and self.repeats > 1:
            raise ValueError("passes replace repeats: give one of them")
        if self.way is Way.RECORDED:
            raise ValueError(f"a replay cannot have the way {self.way}")


class PlannedArm(Struct, frozen=True, kw_only=True):
    """One arm to be run, or an incomplete one to be taken up again (``resumes``)."""

    state: CacheState
    priming: Priming
    repeat: int
    pass_index: int = 0
    resumes: int | None = None


class ArmThere(Struct, frozen=True, kw_only=True):
    """One arm of a file that the options ask for."""

    index: int
    state: CacheState
    priming: Priming
    repeat: int
    pass_index: int
    ended: bool
    whole: bool
    """It made all of its requests, or grew out of the context, which it would do again."""


def arms_there(
    options: ReplayOptions, trace: TraceReader, source: Arm, engine: EngineInfo
) -> tuple[ArmThere, ...]:
    """The arms of a file that these options ask for, finished or not."""
    kinds = _kinds(options)
    return tuple(
        ArmThere(
            index=arm.index,
            state=arm.state,
            priming=arm.priming,
            repeat=arm.repeat,
            pass_index=arm.pass_index,
            ended=trace.end(arm) is not None,
            whole=_is_whole(options, trace, arm),
        )
        for arm in trace.arms
        if (arm.state, arm.priming) in kinds and _is_of(arm, options, source, engine)
    )


def planned_arms(options: ReplayOptions, there: Sequence[ArmThere]) -> tuple[PlannedArm, ...]:
    """What one file lacks, in order: repeat by repeat within a state, states as asked for.

    An arm that was interrupted is taken up again. A chain of passes is not: each starts on what the
    one before left.
    """
    if options.passes > 1:
        return planned_passes(options, [there])
    planned: list[PlannedArm] = []
    for state, priming in _kinds(options):
        own = _of_kind(there, state, priming)
        first = 1 + max((arm.repeat for arm in own), default=-1) if options.again else 0
        for repeat in range(first, first + options.repeats):
            same = [arm for arm in own if arm.repeat == repeat and arm.pass_index == 0]
            if not any(arm.whole for arm in same):
                stopped = [arm.index for arm in same if not arm.ended]
                resumes = stopped[-1] if stopped else None
                planned.append(PlannedArm(state=state, priming=priming, repeat=repeat, resumes=resumes))
    return tuple(planned)


def planned_passes(options: ReplayOptions, files: Sequence[Sequence[ArmThere]]) -> tuple[PlannedArm, ...]:
    """The passes over these files that are lacking; each chain is lacking as a whole or not at all.

    A chain of which any file lacks any pass is run for all of them, under the first number that none
    of them has used: a pass meets what the pass before it, or the episode before it, left in the caches.
    """
    planned: list[PlannedArm] = []
    for state, priming in _kinds(options):
        own = [_of_kind(there, state, priming) for there in files]
        used = {arm.repeat for there in own for arm in there}
        done = 0 if options.again else sum(_is_done(options, own, repeat) for repeat in used)
        numbers = (repeat for repeat in count() if repeat not in used)
        for repeat in islice(numbers, max(0, chains_asked_for(options) - done)):
            planned += [
                PlannedArm(state=state, priming=priming, repeat=repeat, pass_index=index)
                for index in range(options.passes)
            ]
    return tuple(planned)


def first_unfinished(options: ReplayOptions, files: Sequence[Sequence[ArmThere]]) -> tuple[int | None, ...]:
    """For each file the first arm from which on it must be cut so that its chains can be run again.

    None where nothing of an unfinished chain, or of one that comes after it, is in the file.
    """
    stale: set[tuple[CacheState, Priming, int]] = set()
    for state, priming in _kinds(options):
        own = [_of_kind(there, state, priming) for there in files]
        for repeat in range(chains_asked_for(options)):
            if stale or not _is_done(options, own, repeat):
                stale.add((state, priming, repeat))
    return tuple(
        min((arm.index for arm in there if (arm.state, arm.priming, arm.repeat) in stale), default=None)
        for there in files
    )


def chains_asked_for(options: ReplayOptions) -> int:
    """How many chains of each kind: repeats are chains of one pass."""
    return 1 if options.passes > 1 else options.repeats


def _is_done(options: ReplayOptions, files: Sequence[Sequence[ArmThere]], repeat: int) -> bool:
    """Whether every file has every pass of this chain."""
    wanted = set(range(options.passes))
    return all({a.pass_index for a in there if a.repeat == repeat and a.whole} >= wanted for there in files)


def _of_kind(there: Sequence[ArmThere], state: CacheState, priming: Priming) -> list[ArmThere]:
    return [arm for arm in there if (arm.state, arm.priming) == (state, priming)]


def _kinds(options: ReplayOptions) -> Sequence[tuple[CacheState, Priming]]:
    """States with their primings. A priming that is asked for must apply to some state."""
    kinds: list[tuple[CacheState, Priming]] = []
    for state in options.states:
        usual = default_priming(state)
        for priming in options.primings if usual is Priming.OWN and options.primings else (usual,):
            if (state, priming) not in kinds:
                kinds.append((state, priming))
    unused = set(options.primings) - {priming for _, priming in kinds}
    if unused:
        raise UsageError(
            f"the priming {min(unused)} says how a warm cache is filled; add --state warm, or leave it out."
        )
    return kinds


def _is_of(arm: Arm, options: ReplayOptions, source: Arm, engine: EngineInfo) -> bool:
    """Whether an arm was run as these options ask for, whatever its state."""
    follows = None if options.way is Way.CLOSED_LOOP else source.index
    wanted_k = source.top_k if options.top_k is None else options.top_k
    return (
        (arm.way, arm.source_arm, arm.note) == (options.way, follows, options.note)
        and (arm.place.carry, arm.top_k) == (options.carry, wanted_k)
        and same_configuration(arm.engine, engine)
    )


def _is_whole(options: ReplayOptions, trace: TraceReader, arm: Arm) -> bool:
    """Whether an arm reached its end, and made as many requests as these options ask for."""
    end = trace.end(arm)
    if end is None or not end.completed:
        return end is not None and grew_too_long(trace, arm)
    if arm.source_arm is None:
        return True
    return end.requests >= len(trace.requests(arm.source_arm)[: options.requests])


def grew_too_long(trace: TraceReader, arm: Arm) -> bool:
    """Whether the arm ended because a prompt no longer fitted into the context."""
    error = requests[-1].error if (requests := trace.requests(arm)) else None
    return error is not None and error.too_long


def top_k_of(options: ReplayOptions, source: Arm) -> int:
    """K of the new arms: as asked for, else as recorded."""
    return options.top_k or source.top_k or DEFAULT_TOP_K
