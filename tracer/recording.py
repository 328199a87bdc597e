"""Recording: the first arm of an episode, written into a new trace file, or taken up again."""

from __future__ import annotations

import shlex
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tracer.arm_loop import execute_arm
from tracer.arm_plan import ArmPlan, StartFrom
from tracer.engines.base import Engine
from tracer.episode import (
    DEFAULT_TOP_K,
    Arm,
    ArmEnd,
    CacheState,
    Carry,
    Episode,
    Priming,
    RunPlace,
    Sampling,
    Way,
    default_priming,
)
from tracer.errors import UsageError
from tracer.progress import ArmProgress
from tracer.resume import CommittedArm
from tracer.state_shelf import FileShelf, states_folder
from tracer.workloads.base import Workload
from tracer.workloads.registry import workload_from_spec

DEFAULT_NEW_TOKENS = 48
CARRIED_RUN = (
    "a run that hands its caches from one episode to the next cannot be taken up in the middle; "
    "record it anew with --force."
)


def carry_of(*, carry_over: bool, sentinel: bool) -> Carry:
    """What the options --carry-over and --sentinel ask for. Raises ``UsageError`` when both are given."""
    if carry_over and sentinel:
        raise UsageError("--carry-over keeps the caches and --sentinel overwrites them; choose one.")
    return Carry.CARRIED_OVER if carry_over else Carry.SENTINEL if sentinel else Carry.EMPTIED


def keeps_rows(logits: str) -> bool:
    """Whether --logits asks for whole rows. Raises ``UsageError`` for an unknown word."""
    if logits not in ("top", "full"):
        raise UsageError("--logits takes one of: top, full.")
    return logits == "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    """How to record, the same for every episode of a run."""

    state: CacheState = CacheState.WARM
    priming: Priming | None = None
    """None = as the state has it."""
    sampling: Sampling = field(default_factory=lambda: Sampling(max_new_tokens=DEFAULT_NEW_TOKENS))
    top_k: int = DEFAULT_TOP_K
    keep_rows: bool = False
    keep_states: bool = False
    carry: Carry = Carry.EMPTIED
    sentinel_ids: tuple[int, ...] | None = None
    command: str | None = None
    environment: dict[str, str] = field(default_factory=dict)


def new_run_id() -> str:
    """A name for one run over one or many episodes."""
    return uuid.uuid4().hex


def this_command() -> str:
    """The command line as it was given; whoever stores it scrubs it."""
    return shlex.join(["cachetrace", *sys.argv[1:]])


def record_episode(
    engine: Engine,
    workload: Workload,
    path: Path,
    settings: RecordingSettings,
    place: RunPlace,
    progress: ArmProgress,
) -> ArmEnd:
    """Record one episode into a new file. Raises ``UsageError`` if the file exists."""
    from tracer.tracefile import TraceWriter
    from tracer.tracefile.writer import writer_name

    episode = Episode(
        episode_id=workload.episode_id, workload=workload.spec, created_at=time.time(), writer=writer_name()
    )
    source = workload.start(engine)
    plan = recording_plan(settings, place, path)
    with TraceWriter.create(path, episode) as writer:
        return execute_arm(engine, plan, source, writer, progress)


def recording_plan(settings: RecordingSettings, place: RunPlace, path: Path) -> ArmPlan:
    """The plan of the recording arm."""
    carried = settings.carry is not Carry.EMPTIED and place.position > 0
    return ArmPlan(
        state=settings.state,
        priming=settings.priming or default_priming(settings.state),
        way=Way.RECORDED,
        place=place,
        sampling=settings.sampling,
        top_k=settings.top_k,
        keep_rows=settings.keep_rows,
        keep_states=FileShelf(states_folder(path)) if settings.keep_states else None,
        start_from=StartFrom.AS_LEFT if carried else StartFrom.FRESH,
        sentinel_ids=settings.sentinel_ids,
        command=settings.command,
        environment=settings.environment,
    )


def resume_recording(
    engine: Engine, path: Path, settings: RecordingSettings, place: RunPlace, progress: ArmProgress
) -> ArmEnd | None:
    """Take up the incomplete recording of a file; None if it has ended already.

    What to ask comes from the trace's own workload, and how from its arm; ``settings`` and
    ``place`` are used only where the file holds no arm yet.
    """
    from tracer.tracefile import TraceReader, TraceWriter

    with TraceWriter.append(path) as writer:
        with TraceReader.open(path) as trace:
            workload = workload_from_spec(trace.episode.workload)
            arm = incomplete_recording(trace.arms, [trace.end(arm) is not None for arm in trace.arms])
            if arm is None and trace.arms:
                return None
            committed = None if arm is None else CommittedArm.read(trace, arm)
            keep_rows = settings.keep_rows if arm is None else trace.has_rows(arm, 0)
        source = workload.start(engine)
        if arm is None or committed is None:
            plan = recording_plan(settings, place, path)
        else:
            shelf = FileShelf(states_folder(path)) if states_folder(path).is_dir() else None
            plan = ArmPlan.of(arm, keep_rows=keep_rows, keep_states=shelf)
            if arm.place.carry is not Carry.EMPTIED:
                raise UsageError(CARRIED_RUN)
        return execute_arm(engine, plan, source, writer, progress, committed=committed)


def incomplete_recording(arms: tuple[Arm, ...], ended: list[bool]) -> Arm | None:
    """The recording arm that has no end; None if there is none."""
    open_arms = (arm for arm, over in zip(arms, ended, strict=True) if not over)
    return next((arm for arm in open_arms if arm.way is Way.RECORDED), None)
