"""Which arms a replay adds to a file: states × primings × repeats or passes, without those it has.

Imports no numpy, so that a child process can read its options before it loads the engine's library.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    way: Way
    repeat: int
    pass_index: int = 0
    resumes: int | None = None


def planned_arms(
    options: ReplayOptions, trace: TraceReader, source: Arm, engine: EngineInfo
) -> tuple[PlannedArm, ...]:
    """What is left to be run, in order: repeat by repeat within a state, states as asked for."""
    planned: list[PlannedArm] = []
    for state, priming in _kinds(options):
        there = [a for a in trace.arms if _is_of(a, state, priming, options, source, engine)]
        whole = [arm for arm in there if _is_whole(options, trace, arm)]
        if options.passes > 1:
            planned += _chain(options, there, whole, state, priming)
            continue
        first = _next_repeat(there) if options.again else 0
        for repeat in range(first, first + options.repeats):
            if not any(arm.repeat == repeat and arm.pass_index == 0 for arm in whole):
                stopped = [a.index for a in there if a.repeat == repeat and trace.end(a) is None]
                resumes = stopped[-1] if stopped else None
                planned.append(
                    PlannedArm(state=state, priming=priming, way=options.way, repeat=repeat, resumes=resumes)
                )
    return tuple(planned)


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


def _is_of(
    arm: Arm, state: CacheState, priming: Priming, options: ReplayOptions, source: Arm, engine: EngineInfo
) -> bool:
    """Whether an arm in the file is one of those that these options ask for."""
    follows = None if options.way is Way.CLOSED_LOOP else source.index
    wanted_k = source.top_k if options.top_k is None else options.top_k
    return (
        (arm.state, arm.priming, arm.way) == (state, priming, options.way)
        and (arm.source_arm, arm.note, arm.place.carry) == (follows, options.note, options.carry)
        and arm.top_k == wanted_k
        and same_configuration(arm.engine, engine)
    )


def _chain(
    options: ReplayOptions, there: Sequence[Arm], whole: Sequence[Arm], state: CacheState, priming: Priming
) -> list[PlannedArm]:
    """A chain of passes, unless the file has one: each starts on what the one before left, so none alone."""
    for repeat in {arm.repeat for arm in whole}:
        passes = {arm.pass_index for arm in whole if arm.repeat == repeat}
        if passes >= set(range(options.passes)) and not options.again:
            return []
    repeat = _next_repeat(there)
    return [
        PlannedArm(state=state, priming=priming, way=options.way, repeat=repeat, pass_index=index)
        for index in range(options.passes)
    ]


def _next_repeat(there: Sequence[Arm]) -> int:
    return 1 + max((arm.repeat for arm in there), default=-1)


def _is_whole(options: ReplayOptions, trace: TraceReader, arm: Arm) -> bool:
    """Whether an arm reached its end, and made as many requests as these options ask for."""
    end = trace.end(arm)
    if end is None or not end.completed:
        return False
    if arm.source_arm is None:
        return True
    return end.requests >= len(trace.requests(arm.source_arm)[: options.requests])


def top_k_of(options: ReplayOptions, source: Arm) -> int:
    """K of the new arms: as asked for, else as recorded."""
    return options.top_k or source.top_k or DEFAULT_TOP_K
