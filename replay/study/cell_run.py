"""Run one cell: open its engine once, record each of its episodes, replay it under every state.

What is there already is kept: finished arms are left alone, an interrupted one is taken up again,
and a recording that failed is made anew. Running a finished cell again does nothing.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock
from msgspec.structs import replace

from replay.arm_schedule import DEFAULT_REPEATS, ReplayOptions, grew_too_long
from replay.directory_run import cut_unfinished, replay_folder
from replay.replay_run import ReplayedArm
from replay.study.cells import Cell
from replay.study.study_file import CANONICAL, DEFAULT_MODEL
from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.episode import Arm, ArmEnd, CacheState, Carry, Message, Priming, RunPlace, Way
from tracer.errors import EngineDied, UsageError
from tracer.progress import ArmProgress
from tracer.record_run import SENTINEL_TEXT, WorkloadWish, output_paths
from tracer.recording import RecordingSettings, new_run_id, record_episode, resume_recording
from tracer.state_shelf import discard_states, states_folder
from tracer.tracefile import TraceReader
from tracer.workloads.base import Workload

MODELS_FOLDER = "models"


@dataclass(slots=True)
class CellOutcome:
    """What a cell left behind."""

    episodes: int = 0
    failed: list[str] = field(default_factory=list)
    """One sentence an arm that did not reach its end."""
    too_long: list[str] = field(default_factory=list)
    """Episodes of which an arm grew out of the context: an outcome that trying again would not change."""


def run_cell(
    cell: Cell, study_folder: Path, progress: ArmProgress, command: str | None = None
) -> CellOutcome:
    """Run a cell to its end; its files lie in ``study_folder / cell_id``.

    Raises what opening the engine raises, ``StateRefused`` for a state that it cannot produce, and
    ``EngineDied`` when it ends in the middle. An episode that fails does not stop the others.
    """
    from tracer.engines.registry import open_engine

    choice = _with_own_server(cell.engine.choice(_model_file(cell, study_folder, progress)))
    engine = open_engine(choice)
    try:
        return _CellRun(cell, engine, study_folder / cell.cell_id, progress, command).run()
    finally:
        engine.close()


def source_model(cell: Cell) -> Path | None:
    """The weight file that the study names, before any format is made of it."""
    if cell.model is None:
        return None
    if cell.model.path == DEFAULT_MODEL:
        from tracer.model_store import default_model_path

        return default_model_path()
    path = Path(cell.folder) / cell.model.path
    if not path.exists():
        raise UsageError(f"the model {path} of cell {cell.cell_id} does not exist.")
    return path


def _with_own_server(choice: EngineChoice) -> EngineChoice:
    """Where a server program lies is this machine's matter, so a study may leave it to the settings."""
    if choice.server_bin is not None or choice.url is not None:
        return choice
    from tracer.settings import engine_choice

    return replace(choice, server_bin=engine_choice({}).server_bin)


def _model_file(cell: Cell, study_folder: Path, progress: ArmProgress) -> str | None:
    source = source_model(cell)
    if source is None or cell.model is None:
        return None
    if cell.model.weight_format is None:
        return str(source)
    from tracer.engines.llama.quantize import make_ladder

    folder = study_folder / MODELS_FOLDER / cell.model.name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):  # cells that run at the same time share the made files
        ladder = make_ladder(source, [cell.model.weight_format], folder, say=progress.note)
    return str(folder / ladder.formats[0].file)


class _CellRun:
    """One run of one cell on an open engine."""

    def __init__(
        self, cell: Cell, engine: Engine, folder: Path, progress: ArmProgress, command: str | None
    ) -> None:
        self._cell = cell
        self._engine = engine
        self._folder = folder
        self._progress = progress
        self._command = command
        self._outcome = CellOutcome()
        self._run_id = new_run_id()

    def run(self) -> CellOutcome:
        chosen = self._episodes()
        self._outcome.episodes = len(chosen)
        if self._cell.arms.carry is Carry.EMPTIED:
            for place, (workload, path) in enumerate(chosen):
                self._progress.note(f"episode {place + 1} of {len(chosen)}: {workload.episode_id}")
                if self._record(workload, path, self._place(place, None)):
                    self._replay([path])
        else:
            self._carried_over(chosen)
        self._outcome.too_long = [workload.episode_id for workload, path in chosen if _has_too_long(path)]
        return self._outcome

    def _carried_over(self, chosen: Sequence[tuple[Workload, Path]]) -> None:
        """Recordings hand their caches on as well, so they are one run: all of them, or all anew."""
        if any(path.exists() for _, path in chosen) and not all(_is_recorded(path) for _, path in chosen):
            self._progress.note("recordings that hand their caches on were interrupted; they are made anew")
            for _, path in chosen:
                _remove(path)
        predecessor = None
        recorded = []
        for place, (workload, path) in enumerate(chosen):
            if self._record(workload, path, self._place(place, predecessor)):
                recorded.append(path)
            predecessor = workload.episode_id
        if recorded:
            self._replay(recorded)

    def _episodes(self) -> list[tuple[Workload, Path]]:
        """The cell's episodes with their files, in the order in which they are served."""
        cell = self._cell
        table = cell.workload
        file = None if table.file is None else Path(cell.folder) / table.file
        options = {
            "agent": table.agent,
            "history": table.history,
            "turns": table.turns,
            "subset": table.subset,
        }
        wish = WorkloadWish(name=table.name, options={**options, "file": file})
        found = wish.workloads(self._engine, self._progress)
        if cell.episodes is not None:
            beyond = [place for place in cell.episodes if place >= len(found)]
            if beyond:
                raise UsageError(
                    f"the workload {table.name} has {len(found)} episodes, counted from 0; there is no "
                    f"episode {beyond[0]}."
                )
            found = [found[place] for place in cell.episodes]
        if cell.order != CANONICAL:
            random.Random(int(cell.order)).shuffle(found)  # noqa: S311  # an order that can be repeated, no secret
        self._folder.mkdir(parents=True, exist_ok=True)
        return list(zip(found, output_paths(found, self._folder, table.name), strict=True))

    def _place(self, position: int, predecessor: str | None) -> RunPlace:
        return RunPlace(
            run_id=self._run_id, position=position, predecessor=predecessor, carry=self._cell.arms.carry
        )

    # ---- recording

    def _record(self, workload: Workload, path: Path, place: RunPlace) -> bool:
        """Record one episode unless that is done; whether there is something to replay."""
        settings = self._recording_settings()
        end = _recorded_end(path)
        if end is None and path.exists() and place.carry is Carry.EMPTIED:
            end = resume_recording(self._engine, path, settings, place, self._progress) or _recorded_end(path)
        if not _is_recorded(path):
            _remove(path)
            end = record_episode(self._engine, workload, path, settings, place, self._progress)
        if end is None or not _is_recorded(path):
            self._failed(f"{path.name}, recording: {end.reason if end else 'it has no end'}")
        return end is not None and end.completed

    def _recording_settings(self) -> RecordingSettings:
        arms, sampling = self._cell.arms, self._cell.sampling
        sentinel_ids = None
        if arms.carry is Carry.SENTINEL:
            text = self._engine.render([Message(role="user", content=SENTINEL_TEXT)])
            sentinel_ids = tuple(self._engine.tokenize(text))
        return RecordingSettings(
            state=arms.recorded_state,
            sampling=sampling.sampling,
            top_k=sampling.top_k,
            carry=arms.carry,
            sentinel_ids=sentinel_ids,
            command=self._command,
            environment=dict(os.environ),
        )

    # ---- replaying

    def _replay(self, paths: Sequence[Path]) -> None:
        for options in self._replays():
            if options.passes > 1 or options.carry is not Carry.EMPTIED:
                cut_unfinished(self._engine, paths, options, self._progress)
            replay_folder(self._engine, paths, options, self._progress, self._finished)

    def _replays(self) -> Iterator[ReplayOptions]:
        """One round of arms for cold, where the recording counts as its first, and one for the rest."""
        arms = self._cell.arms
        counts_as_first = arms.way == "fixed" and arms.passes is None
        rest = arms.states
        if CacheState.COLD in rest and counts_as_first:
            rest = tuple(state for state in rest if state is not CacheState.COLD)
            if self._repeats > 1:
                yield self._options((CacheState.COLD,), self._repeats - 1)
        if rest:
            yield self._options(rest, self._repeats)

    @property
    def _repeats(self) -> int:
        arms = self._cell.arms
        return 1 if arms.passes else arms.repeats or DEFAULT_REPEATS

    def _options(self, states: tuple[CacheState, ...], repeats: int) -> ReplayOptions:
        arms = self._cell.arms
        filled_by_serving = {CacheState.WARM, CacheState.NO_PROMPT_CACHE} & set(states)
        primings: tuple[Priming, ...] = arms.priming if filled_by_serving else ()
        return ReplayOptions(
            states=states,
            primings=primings,
            way=Way(arms.way),
            repeats=repeats,
            passes=arms.passes or 1,
            carry=arms.carry,
            run_id=self._run_id,
            command=self._command,
        )

    def _finished(self, path: Path, done: Sequence[ReplayedArm]) -> None:
        for each in done:
            if not each.end.completed and not _arm_grew_too_long(path, each.arm):
                self._failed(f"{path.name}, {each.arm.label}: {each.end.reason}")

    def _failed(self, sentence: str) -> None:
        self._outcome.failed.append(sentence)
        if ": the engine died" in sentence:
            raise EngineDied(sentence)


def _recorded_end(path: Path) -> ArmEnd | None:
    """The end of the recording in this file; None when there is no file or no end."""
    if not path.exists():
        return None
    with TraceReader.open(path) as trace:
        for arm in trace.arms:
            if arm.way is Way.RECORDED and (end := trace.end(arm.index)) is not None:
                return end
    return None


def _is_recorded(path: Path) -> bool:
    """Whether the recording came to an end that trying again would not change."""
    end = _recorded_end(path)
    if end is None:
        return False
    with TraceReader.open(path) as trace:
        recording = next(arm for arm in trace.arms if arm.way is Way.RECORDED)
        return end.completed or grew_too_long(trace, recording)


def _has_too_long(path: Path) -> bool:
    """Whether an arm of this file grew out of the context."""
    if not path.exists():
        return False
    with TraceReader.open(path) as trace:
        return any(trace.end(arm) is not None and grew_too_long(trace, arm) for arm in trace.arms)


def _arm_grew_too_long(path: Path, arm: Arm) -> bool:
    with TraceReader.open(path) as trace:
        return grew_too_long(trace, arm)


def _remove(path: Path) -> None:
    """Make room for a new recording in a folder that only this study writes into."""
    path.unlink(missing_ok=True)
    discard_states(states_folder(path))
