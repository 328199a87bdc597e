"""Run a recorded episode again under other cache states; every arm goes into the same file.

``replay_trace`` opens the engine that the user chose, checks that it is the one that recorded, plans
the arms that the file lacks, and lets ``tracer.arm_loop`` execute each. Running the same replay again
takes up an arm that was interrupted and leaves finished ones alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from replay.arm_schedule import PlannedArm, ReplayOptions, arms_there, planned_arms, top_k_of
from replay.body_source import BodySource, is_body_recording
from replay.engine_guard import check_engine, settings_as_recorded
from replay.recorded_source import RecordedSource, source_arm
from replay.snapshot_reference import (
    SpillingShelf,
    could_be_reference,
    kept_states,
    reference_arm,
    states_made_again,
)
from tracer.arm_loop import ArmPlan, StartFrom, execute_arm
from tracer.cache_states import refuse_impossible
from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import Arm, ArmEnd, CacheState, Carry, Message, RunPlace, Way
from tracer.errors import StateRefused, UsageError
from tracer.progress import ArmProgress, Silent
from tracer.record_run import SENTINEL_TEXT
from tracer.recording import new_run_id
from tracer.request_source import RequestSource
from tracer.resume import CommittedArm
from tracer.state_shelf import StateShelf
from tracer.tracefile import TraceReader, TraceWriter
from tracer.tracefile.redaction import REDACTED_NOTE
from tracer.workloads.registry import workload_from_spec


class ReplayedArm(Struct, frozen=True, kw_only=True):
    """One arm that a replay wrote or finished."""

    arm: Arm
    end: ArmEnd


class PlaceInRun(Struct, frozen=True, kw_only=True):
    """Where this episode stands in a run over several, and how it finds the caches."""

    position: int = 0
    predecessor: str | None = None
    """Episode that was served just before on the same caches."""
    emptied: bool = True
    """The caches are emptied before the first request of an arm's first pass."""


def replay_trace(
    trace_path: Path,
    choice: EngineChoice,
    options: ReplayOptions,
    progress: ArmProgress | None = None,
) -> tuple[ReplayedArm, ...]:
    """Add the arms that ``options`` ask for and the file lacks; returns those that were run.

    Raises ``UsageError`` when the engine is not the one that recorded, ``StateRefused`` when it cannot
    produce a state, ``EngineError`` when it cannot be opened. A request that fails ends its arm as failed.
    """
    with TraceReader.open(trace_path) as trace:
        choice = settings_as_recorded(choice, source_arm(trace, options.source).engine)
    with opened(choice) as engine:
        return replay_on(engine, trace_path, options, progress)


def _body_way(options: ReplayOptions) -> Way:
    if options.way not in (Way.FIXED, Way.BODY):
        raise UsageError(
            f"a recording through the proxy replays its bodies; the way {options.way} does not apply to it."
        )
    return Way.BODY


@contextmanager
def opened(choice: EngineChoice) -> Iterator[Engine]:
    """The chosen engine, closed at the end."""
    engine = open_engine(choice)
    try:
        yield engine
    finally:
        engine.close()


def replay_on(
    engine: Engine,
    trace_path: Path,
    options: ReplayOptions,
    progress: ArmProgress | None = None,
    *,
    place: PlaceInRun | None = None,
) -> tuple[ReplayedArm, ...]:
    """As ``replay_trace`` on an engine that is open. ``place``: of the episode in a run over several."""
    with ReplayRun(engine, trace_path, options, progress, place) as run:
        return tuple(run.run(planned) for planned in run.planned)


class ReplayRun:
    """One replay of one file: what is shared by its arms. Raises like ``replay_trace`` at once.

    Use as a context manager: it may keep cache states in memory or in a folder of its own.
    """

    def __init__(
        self,
        engine: Engine,
        trace_path: Path,
        options: ReplayOptions,
        progress: ArmProgress | None = None,
        place: PlaceInRun | None = None,
    ) -> None:
        self._engine = engine
        self._path = trace_path
        self._options = options
        self._progress = progress or Silent()
        self._in_run = place
        self._run_id = options.run_id or new_run_id()
        self._shelf: SpillingShelf | None = None
        self._shelf_of: int | None = None
        """Index of the arm whose states are on the shelf."""

        with TraceReader.open(trace_path) as trace:
            if REDACTED_NOTE in trace.episode.notes:
                raise UsageError(
                    f"{trace_path} is a redacted copy: tokens of its prompts were removed, so it cannot be "
                    "replayed; replay the original."
                )
            self._source_arm = source_arm(trace, options.source)
            if trace.end(self._source_arm) is None:
                known = len(trace.requests(self._source_arm))
                self._progress.note(
                    f"{self._source_arm.label} is incomplete; only its {known} requests are replayed."
                )
            for mismatch in check_engine(self._source_arm, engine, anyway=options.anyway):
                self._progress.note(f"replaying anyway: {mismatch}")
            if is_body_recording(trace, self._source_arm):
                self._options = options = replace(options, way=_body_way(options))
            self.there = arms_there(options, trace, self._source_arm, engine.info)
            """The arms of these options that the file has."""
        self.planned = planned_arms(options, self.there)
        """The arms that the file lacks, in order."""
        for one in self.planned:  # before anything is served: half a replay helps nobody
            refuse_impossible(engine.capabilities, engine.info, one.state, one.priming, self._options.way)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shelf is not None:
            self._shelf.close()

    def run(self, planned: PlannedArm) -> ReplayedArm:
        """Execute one arm, or finish one that was interrupted."""
        source = self._source_arm
        with TraceWriter.append(self._path) as writer, TraceReader.open(self._path) as trace:
            committed = None
            if planned.resumes is not None:
                committed = CommittedArm.read(trace, trace.arms[planned.resumes])
            plan = self._plan(planned, source, trace, committed)
            end = execute_arm(
                self._engine,
                plan,
                self._source(source, trace),
                writer,
                self._progress,
                committed=committed,
            )
            arm = writer.arms[-1] if committed is None else committed.arm
        if plan.keep_states is not None and end.completed:
            self._shelf_of = arm.index
        return ReplayedArm(arm=arm, end=end)

    def _plan(
        self, planned: PlannedArm, source: Arm, trace: TraceReader, committed: CommittedArm | None
    ) -> ArmPlan:
        met, reference = self._states_met(planned, source, trace)
        options = self._options
        if committed is not None:
            return ArmPlan.of(committed.arm, keep_rows=options.keep_rows, states_met=met)
        return ArmPlan(
            state=planned.state,
            priming=planned.priming,
            way=self._options.way,
            place=self._place(),
            sampling=source.sampling,
            top_k=top_k_of(options, source),
            keep_rows=options.keep_rows,
            repeat=planned.repeat,
            pass_index=planned.pass_index,
            start_from=self._start_from(planned),
            source_arm=None if self._options.way is Way.CLOSED_LOOP else source.index,
            reference_arm=reference,
            states_met=met,
            keep_states=self._shelf_for(planned),
            sentinel_ids=self._sentinel(planned),
            command=options.command,
            environment=dict(os.environ),
            note=options.note,
        )

    def _source(self, source: Arm, trace: TraceReader) -> RequestSource:
        if self._options.way is Way.CLOSED_LOOP:
            return workload_from_spec(trace.episode.workload).start(self._engine)
        if self._options.way is Way.BODY:
            return BodySource(trace, source, self._engine, requests=self._options.requests)
        return RecordedSource(
            trace, source, forced=self._options.way is Way.FORCED, requests=self._options.requests
        )

    def _place(self) -> RunPlace:
        run_id, carry = self._run_id, self._options.carry
        if self._in_run is None:
            return RunPlace(run_id=run_id, position=self._source_arm.place.position, carry=carry)
        position, predecessor = self._in_run.position, self._in_run.predecessor
        return RunPlace(run_id=run_id, position=position, predecessor=predecessor, carry=carry)

    def _start_from(self, planned: PlannedArm) -> StartFrom:
        """Fresh, except a later pass, and an episode of a run that carries its caches over."""
        carried = self._in_run is not None and not self._in_run.emptied
        return StartFrom.AS_LEFT if planned.pass_index or carried else StartFrom.FRESH

    def _sentinel(self, planned: PlannedArm) -> tuple[int, ...] | None:
        if self._options.carry is not Carry.SENTINEL or planned.pass_index:
            return None
        text = self._engine.render([Message(role="user", content=SENTINEL_TEXT)])
        return tuple(self._engine.tokenize(text))

    # ---- snapshot

    def _shelf_for(self, planned: PlannedArm) -> StateShelf | None:
        """Keep the states of this run's first possible reference when a snapshot arm will ask for them."""
        possible = could_be_reference(planned.state, planned.priming, planned.pass_index)
        wanted = CacheState.SNAPSHOT in self._options.states and possible
        first = planned.repeat == 0 and self._options.way is Way.FIXED
        if not (wanted and first and self._shelf_of is None and self._engine.capabilities.snapshot):
            return None
        self._shelf = SpillingShelf()
        return self._shelf

    def _states_met(
        self, planned: PlannedArm, source: Arm, trace: TraceReader
    ) -> tuple[StateShelf | None, int | None]:
        """(states that each request met, index of the arm that met them) for a snapshot arm."""
        if planned.state is not CacheState.SNAPSHOT:
            return None, None
        if self._shelf is not None and self._shelf_of is not None:
            return self._shelf, self._shelf_of
        reference = reference_arm(trace, self._engine, source)
        if reference is None:
            raise StateRefused(
                "snapshot restores the states that a warm arm met, and this file has no complete warm arm of "
                "this engine configuration with priming own or lockstep; replay with --state warm,snapshot."
            )
        kept = kept_states(self._path, trace, reference)
        if kept is not None:
            return kept, reference.index
        self._progress.note(f"serving {reference.label} again to have the states that its requests met")
        self._shelf = SpillingShelf()
        states_made_again(self._engine, trace, reference, self._shelf, self._progress)
        self._shelf_of = reference.index
        return self._shelf, self._shelf_of
