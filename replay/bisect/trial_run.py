"""One configuration's arms, cold and warm, written into a trace file of its own.

A file that is complete is left alone and an arm that was stopped is taken up, so that the same bisect
can be run again after a Ctrl-C. The engine is opened for one file and closed before the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import xxhash
from msgspec.structs import replace

from replay.bisect.candidates import Configuration
from replay.bisect.requests import SelectedRequests
from replay.bisect.trial_process import TrialOrder, run_in_child
from replay.recorded_source import RecordedSource
from tracer.arm_loop import ArmPlan, execute_arm
from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.engines.registry import open_engine
from tracer.episode import Arm, CacheState, Priming, Request, RunPlace, Way
from tracer.errors import UsageError
from tracer.progress import ArmProgress, Silent, progress_for
from tracer.resume import CommittedArm
from tracer.tracefile import TraceReader, TraceWriter

STATES = (CacheState.COLD, CacheState.WARM)
_KEY = "bisect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """What all configurations of one bisect have in common."""

    path: Path
    trace: TraceReader
    """``path``, opened."""
    source: Arm
    choice: EngineChoice
    """The default configuration."""
    requests: tuple[int, ...]
    folder: Path
    priming: Priming
    progress: ArmProgress
    open_engine: Callable[[EngineChoice], Engine]
    run_id: str
    command: str | None = None
    anyway: bool = False
    prefix: str = ""
    """Of file names: the look over a whole episode has files of its own."""
    isolated: bool = False
    """Serve each configuration in a process of its own (engines whose native code may abort)."""

    def path_of(self, configuration: Configuration) -> Path:
        """The trace file of a configuration."""
        return self.folder / f"{self.prefix}{configuration.file_name}.msgpack"

    def run(self, configuration: Configuration, repeats: int) -> Path:
        """Bring the file to so many repeats of both arms, as far as the engine gets; returns its path.

        Raises ``EngineError`` or ``StateRefused`` when the engine does not take the configuration, and
        ``UsageError`` when it is not the recorded model or the folder holds something else.
        """
        path = self.path_of(configuration)
        self._refuse_other(path)
        if path.exists() and not self._missing(path, repeats):
            self.progress.note(f"{configuration.label}: {path.name} is complete already")
            return path
        if self.isolated:
            run_in_child(self._order(configuration, repeats))
            return path
        engine = self.open_engine(configuration.applied(self.choice))
        try:
            self._check_model(engine)
            self._serve(engine, configuration, path, repeats)
        finally:
            engine.close()
        return path

    def _order(self, configuration: Configuration, repeats: int) -> TrialOrder:
        return TrialOrder(
            trace=str(self.path),
            source=self.source.index,
            choice=self.choice,
            requests=self.requests,
            folder=str(self.folder),
            priming=self.priming,
            run_id=self.run_id,
            command=self.command,
            anyway=self.anyway,
            prefix=self.prefix,
            configuration=configuration,
            repeats=repeats,
            quiet=isinstance(self.progress, Silent),
        )

    def _serve(self, engine: Engine, configuration: Configuration, path: Path, repeats: int) -> None:
        if not path.exists():
            notes = {
                **self.trace.episode.notes,
                _KEY: self._key(),
                "bisect_configuration": configuration.label,
                "bisect_requests": ",".join(map(str, self.requests)),
            }
            TraceWriter.create(path, replace(self.trace.episode, notes=notes)).close()
        progress = _Labelled(self.progress, configuration.label)
        for state, repeat, stopped in self._missing(path, repeats):
            with TraceWriter.append(path) as writer, TraceReader.open(path) as written:
                committed = None if stopped is None else CommittedArm.read(written, written.arms[stopped])
                plan = self._plan(state, repeat) if committed is None else ArmPlan.of(committed.arm)
                source = SelectedRequests(RecordedSource(self.trace, self.source), self.requests)
                end = execute_arm(engine, plan, source, writer, progress, committed=committed)
            if not end.completed:
                return

    def _plan(self, state: CacheState, repeat: int) -> ArmPlan:
        return ArmPlan(
            state=state,
            priming=Priming.NONE if state is CacheState.COLD else self.priming,
            way=Way.FIXED,
            place=RunPlace(run_id=self.run_id),
            sampling=self.source.sampling,
            top_k=self.source.top_k,
            repeat=repeat,
            command=self.command,
            environment=dict(os.environ),
        )

    def _missing(self, path: Path, repeats: int) -> Sequence[tuple[CacheState, int, int | None]]:
        """(state, repeat, index of the arm that was stopped) of every arm that is not complete."""
        wanted = [(state, repeat) for repeat in range(repeats) for state in STATES]
        if not path.exists():
            return [(state, repeat, None) for state, repeat in wanted]
        with TraceReader.open(path) as written:
            return [
                (state, repeat, _stopped(written, state, repeat))
                for state, repeat in wanted
                if complete_arm(written, state, repeat) is None
            ]

    def _refuse_other(self, path: Path) -> None:
        if not path.exists():
            return
        with TraceReader.open(path) as written:
            if written.episode.notes.get(_KEY) != self._key():
                raise UsageError(
                    f"{path} is of another bisect (other episode, requests or default configuration); "
                    "name another folder with -o."
                )

    def _key(self) -> str:
        """What two bisects must have in common to share files."""
        prompts = [self._request(index).prompt_hash for index in self.requests]
        parts = (
            self.trace.episode.episode_id,
            prompts,
            self.source.sampling,
            self.source.top_k,
            self.priming,
            replace(self.choice, timeout_s=0.0),
        )
        return f"xxh3:{xxhash.xxh3_64_hexdigest(msgspec.json.encode(parts))}"

    def _request(self, index: int) -> Request:
        return self.trace.requests(self.source.index)[index]

    def _check_model(self, engine: Engine) -> None:
        recorded, now = self.source.engine.model_hash, engine.info.model_hash
        if not self.anyway and None not in (recorded, now) and recorded != now:
            raise UsageError(
                "this is not the model that was recorded, so the recorded prompts do not belong to it; "
                "give the same model file, or --anyway."
            )


def run_order(order: TrialOrder) -> None:
    """The child's side of an isolated run. Raises like ``Trials.run``."""
    path = Path(order.trace)
    with TraceReader.open(path) as trace:
        trials = Trials(
            path=path,
            trace=trace,
            source=trace.arms[order.source],
            choice=order.choice,
            requests=order.requests,
            folder=Path(order.folder),
            priming=order.priming,
            progress=progress_for(quiet=order.quiet),
            open_engine=open_engine,
            run_id=order.run_id,
            command=order.command,
            anyway=order.anyway,
            prefix=order.prefix,
        )
        trials.run(order.configuration, order.repeats)


def complete_arm(trace: TraceReader, state: CacheState, repeat: int) -> Arm | None:
    """The finished arm of a state and repeat, None when there is none."""
    return next(
        (
            arm
            for arm in _arms_of(trace, state, repeat)
            if (end := trace.end(arm)) is not None and end.completed
        ),
        None,
    )


def failure_of(trace: TraceReader) -> str:
    """Why the last arm that failed did so; empty when none failed."""
    reasons = [end.reason for arm in trace.arms if (end := trace.end(arm)) is not None and not end.completed]
    return reasons[-1] or "a request failed" if reasons else ""


def _stopped(trace: TraceReader, state: CacheState, repeat: int) -> int | None:
    return next((arm.index for arm in _arms_of(trace, state, repeat) if trace.end(arm) is None), None)


def _arms_of(trace: TraceReader, state: CacheState, repeat: int) -> Iterator[Arm]:
    """The latest first: an arm that failed may have been run again."""
    return (arm for arm in reversed(trace.arms) if (arm.state, arm.repeat) == (state, repeat))


class _Labelled:
    """Progress of an arm with the configuration's name before the arm's."""

    def __init__(self, progress: ArmProgress, label: str) -> None:
        self._progress = progress
        self._label = label
        self.request_started = progress.request_started
        self.prompt_progress = progress.prompt_progress
        self.request_ended = progress.request_ended
        self.note = progress.note

    def arm_started(self, label: str, planned: int | None) -> None:
        self._progress.arm_started(f"{self._label}, {label}", planned)

    def arm_ended(self, label: str, sentence: str) -> None:
        self._progress.arm_ended(f"{self._label}, {label}", sentence)
