"""The states that the requests of a warm arm met: kept when it ran, or made again.

States are parsed by native code, so they are never taken from a trace: they come from this run's
memory, from files that this user's own run sealed (``record --keep-states``), or from serving the
reference arm again, whose fingerprints must then equal the recorded ones.
"""

from __future__ import annotations

import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

from replay.engine_guard import same_configuration
from replay.recorded_source import RecordedSource
from tracer.arm_loop import ArmPlan, serve_again
from tracer.engines.base import Engine, SavedState
from tracer.episode import Arm, CacheState, Priming, Way
from tracer.errors import StateRefused, UsageError
from tracer.progress import ArmProgress
from tracer.resume import CommittedArm
from tracer.state_shelf import FileShelf, MemoryShelf, StateShelf, states_folder
from tracer.tracefile import TraceReader

MEMORY_BYTES = 1 << 30
"""States beyond this go to a folder of our own that is deleted afterwards."""


class SpillingShelf:
    """States in memory up to ``MEMORY_BYTES``, the rest in files. ``close`` it in the end."""

    def __init__(self, limit_bytes: int = MEMORY_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._memory = MemoryShelf()
        self._in_files: set[int] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: FileShelf | None = None

    def put(self, index: int, state: SavedState | None) -> None:
        size = 0 if state is None else state.size_bytes
        if self._held_bytes + size <= self._limit_bytes or not _is_bytes(state):
            self._memory.put(index, state)
            self._held_bytes += size
            return
        if self._files is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cachetrace-states-")
            self._files = FileShelf(Path(self._folder.name), key=secrets.token_bytes(32))
        self._files.put(index, state)
        self._in_files.add(index)

    def get(self, index: int) -> SavedState | None:
        if self._files is not None and index in self._in_files:
            return self._files.get(index)
        return self._memory.get(index)

    def __len__(self) -> int:
        return len(self._memory) + len(self._in_files)

    def close(self) -> None:
        """Delete the files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def could_be_reference(state: CacheState, priming: Priming, pass_index: int = 0) -> bool:
    """Whether ``snapshot`` may restore what such an arm met: a warm one that its own history filled."""
    return state is CacheState.WARM and priming in (Priming.OWN, Priming.LOCKSTEP) and pass_index == 0


def reference_arm(trace: TraceReader, engine: Engine, source: Arm) -> Arm | None:
    """The warm arm whose states ``snapshot`` shall restore: the recording if it is one, else the first.

    It must be complete, from a fresh start, by this engine configuration, and ask what ``source`` asked.
    None when there is none.
    """
    candidates = [
        arm
        for arm in trace.arms
        if could_be_reference(arm.state, arm.priming, arm.pass_index)
        and (arm.index == source.index or (arm.way is Way.FIXED and arm.source_arm == source.index))
        and (end := trace.end(arm)) is not None
        and end.completed
        and same_configuration(arm.engine, engine.info)
    ]
    return min(candidates, key=lambda arm: (arm.way is not Way.RECORDED, arm.index), default=None)


def kept_states(trace_path: Path, trace: TraceReader, reference: Arm) -> StateShelf | None:
    """The states that ``record --keep-states`` kept for this recording, None when there are none."""
    folder = states_folder(trace_path)
    if reference.way is not Way.RECORDED or not folder.is_dir():
        return None
    shelf = FileShelf(folder)
    return shelf if len(shelf) >= len(trace.requests(reference)) else None


def states_made_again(
    engine: Engine, trace: TraceReader, reference: Arm, shelf: StateShelf, progress: ArmProgress | None = None
) -> None:
    """Serve the reference arm again, holding each answer to its record, and keep the states met.

    Equal answers make the arm's own priming the same as lockstep. Raises ``StateRefused`` when the
    reference does not repeat itself: its states could not be called the ones that it met.
    """
    plan = replace(ArmPlan.of(reference), keep_states=shelf)
    source = RecordedSource(trace, _source_of(trace, reference))
    try:
        serve_again(engine, plan, source, CommittedArm.read(trace, reference), progress)
    except UsageError as error:
        raise StateRefused(
            f"the states of the reference arm {reference.label} cannot be made again: {error}"
        ) from error


def _source_of(trace: TraceReader, reference: Arm) -> Arm:
    """Where lockstep took the recorded outputs from; an arm with its own history follows itself."""
    followed = reference.source_arm
    if reference.priming is Priming.LOCKSTEP and followed is not None and 0 <= followed < len(trace.arms):
        return trace.arms[followed]
    return reference


def _is_bytes(state: SavedState | None) -> bool:
    return state is not None and isinstance(state.payload, bytes | bytearray | memoryview)
