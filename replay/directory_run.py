"""Replay many episodes on one engine, in a stated order: emptied, carried over, or with a sentinel.

By default every episode starts from empty caches and the order does not matter. With ``carry`` the
caches go from one episode to the next, as in the paper: one pass over all episodes is then one run,
so it is done as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from replay.arm_schedule import ArmThere, PlannedArm, ReplayOptions, first_unfinished, planned_passes
from replay.replay_run import PlaceInRun, ReplayedArm, ReplayRun, replay_on
from tracer.engines.base import Engine
from tracer.episode import CacheState, Carry
from tracer.errors import UsageError
from tracer.progress import ArmProgress
from tracer.recording import new_run_id
from tracer.tracefile import TraceReader
from tracer.tracefile.cutting import cut_arms

SUFFIX = ".msgpack"

Finished = Callable[[Path, Sequence[ReplayedArm]], None]


def traces_of(folder: Path) -> list[Path]:
    """The trace files of a folder in the order in which they were recorded, else by name.

    Raises ``UsageError`` when there is none.
    """
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise UsageError(f"{folder} holds no trace file (*{SUFFIX}); record some with `cachetrace record`.")
    return sorted(paths, key=_recorded_position)


def replay_folder(
    engine: Engine,
    paths: Sequence[Path],
    options: ReplayOptions,
    progress: ArmProgress | None = None,
    finished: Finished | None = None,
) -> None:
    """Replay all episodes; ``finished`` is called with a file and its new arms whenever one has some."""
    options = replace(options, run_id=options.run_id or new_run_id())
    if options.carry is Carry.EMPTIED:
        for path in paths:
            arms = replay_on(engine, path, options, progress)
            if finished is not None:
                finished(path, arms)
        return
    if CacheState.SNAPSHOT in options.states:
        # What a carried-over arm met cannot be made again, and a restored state carries nothing over.
        raise UsageError(
            "snapshot restores its states before each request, so nothing is carried over; replay it in "
            "a run of its own, without --carry-over and --sentinel."
        )
    for kind in planned_passes(options, _there(engine, paths, options, progress)):
        _one_pass(engine, paths, options, kind, progress, finished)


def cut_unfinished(
    engine: Engine, paths: Sequence[Path], options: ReplayOptions, progress: ArmProgress
) -> None:
    """Take what was interrupted of a run over these files off them, so that it can be run anew.

    Caches go from pass to pass, or from episode to episode, so such a run cannot be taken up in the
    middle. For folders that only one program writes into: elsewhere an unfinished run is left alone.
    """
    for path, first in zip(
        paths, first_unfinished(options, _there(engine, paths, options, progress)), strict=True
    ):
        if first is not None:
            progress.note(f"{path.name}: runs that were interrupted are made anew, from arm {first} on")
            cut_arms(path, first)


def _there(
    engine: Engine, paths: Sequence[Path], options: ReplayOptions, progress: ArmProgress | None
) -> list[tuple[ArmThere, ...]]:
    found = []
    for path in paths:
        with ReplayRun(engine, path, options, progress) as run:
            found.append(run.there)
    return found


def _one_pass(
    engine: Engine,
    paths: Sequence[Path],
    options: ReplayOptions,
    planned: PlannedArm,
    progress: ArmProgress | None,
    finished: Finished | None,
) -> None:
    """One arm of every episode, one after the other on the same caches."""
    predecessor = None
    for position, path in enumerate(paths):
        place = PlaceInRun(
            position=position, predecessor=predecessor, emptied=position == 0 and not planned.pass_index
        )
        with ReplayRun(engine, path, options, progress, place) as run:
            arm = run.run(planned)
        if finished is not None:
            finished(path, (arm,))
        with TraceReader.open(path) as trace:
            predecessor = trace.episode.episode_id


def _recorded_position(path: Path) -> tuple[int, str]:
    with TraceReader.open(path) as trace:
        return (trace.arms[0].place.position if trace.arms else 0, path.name)
