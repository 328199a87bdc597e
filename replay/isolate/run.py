"""Serve the experiments on one engine and write their traces. A finished experiment is left alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from replay.isolate.experiments import CellArm, Experiment, arms_of
from replay.isolate.items import Item, ItemSource
from replay.snapshot_reference import SpillingShelf
from tracer.arm_loop import ArmPlan, StartFrom, execute_arm
from tracer.engines.base import Engine
from tracer.episode import (
    ArmEnd,
    CacheState,
    Episode,
    RunPlace,
    Sampling,
    Way,
    WorkloadSpec,
    default_priming,
)
from tracer.errors import EngineError, StateRefused, UsageError
from tracer.output_folder import make_folder
from tracer.progress import ArmProgress
from tracer.recording import new_run_id
from tracer.tracefile import TraceReader, TraceWriter
from tracer.tracefile.writer import writer_name

DEFAULT_ITEMS = 12
DEFAULT_NEW_TOKENS = 24
SUFFIX = ".msgpack"


ItemsFor = Callable[[Experiment], Sequence[Item]]
"""The items of an experiment."""


class IsolateOptions(Struct, frozen=True, kw_only=True):
    """What to run."""

    experiments: tuple[Experiment, ...] = tuple(Experiment)
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    command: str | None = None


def run_isolate(
    engine: Engine, items_for: ItemsFor, folder: Path, options: IsolateOptions, progress: ArmProgress
) -> Iterator[Path]:
    """Run the experiments on their items; yields the file of each when it is finished.

    An experiment that this engine cannot do is left out with a note. Raises ``EngineError`` when an arm
    fails, ``UsageError`` when a file of another experiment stands in the way.
    """
    make_folder(folder)
    done = 0
    for experiment in options.experiments:
        path = folder / f"{experiment}{SUFFIX}"
        items = items_for(experiment)
        if _finished(path, experiment, items):
            progress.note(f"{path.name} is complete.")
        else:
            refusal = _refusal(engine, experiment)
            if refusal is not None:
                progress.note(f"{experiment} is left out: {refusal}")
                continue
            _run_experiment(engine, items, path, experiment, options, progress)
        done += 1
        yield path
    if not done:
        raise StateRefused(f"engine {engine.info.engine} can do none of these experiments.")


class HeldLayers:
    """An engine whose layers stay as they were set once, so that a cold pass leaves them alone.

    ``tracer.cache_states`` switches the second layer off for cold arms; on a launched server that is a
    restart, and what the passes before had left would be gone.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def set_layers(self, *, prefix_cache: bool, prompt_cache: bool) -> None:
        """Nothing: they were set when the cell began."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _refusal(engine: Engine, experiment: Experiment) -> str | None:
    """Why this engine cannot do an experiment, None when it can."""
    able = engine.capabilities
    states = {arm.state for arm in arms_of(experiment)}
    lacking = [state for state in states if able.states and state not in able.states]
    if lacking:
        return f"engine {engine.info.engine} cannot produce the cache state {min(lacking)}."
    if experiment is not Experiment.RESTORED and not able.prompt_cache:
        return f"the second layer of engine {engine.info.engine} cannot be switched."
    if experiment is Experiment.PASS_ORDER and not able.disable_per_request:
        return f"engine {engine.info.engine} cannot recompute a request while its caches stay filled."
    return None


def _finished(path: Path, experiment: Experiment, items: Sequence[Item]) -> bool:
    """Whether the file holds the whole experiment. One that was stopped is begun anew."""
    if not path.exists():
        return False
    with TraceReader.open(path) as trace:
        if trace.episode.notes.get("experiment") != experiment:
            raise UsageError(f"{path} exists and is another trace; choose another folder with -o.")
        ends = [trace.end(arm) for arm in trace.arms]
        wanted = len(list(arms_of(experiment)))
        whole = len(ends) == wanted and all(end is not None and end.completed for end in ends)
        if whole and all(len(trace.requests(arm)) == len(items) for arm in trace.arms):
            return True
    path.unlink()
    return False


def _run_experiment(
    engine: Engine,
    items: Sequence[Item],
    path: Path,
    experiment: Experiment,
    options: IsolateOptions,
    progress: ArmProgress,
) -> None:
    episode = Episode(
        episode_id=f"isolate/{experiment}",
        workload=WorkloadSpec(name="items", params={"items": len(items)}),
        created_at=time.time(),
        writer=writer_name(),
        notes={"experiment": str(experiment)},
    )
    shelf = SpillingShelf()
    run_id = new_run_id()
    try:
        with TraceWriter.create(path, episode) as writer:
            for arm in arms_of(experiment):
                progress.note(f"{experiment}, {arm.note}: {arm.state}, pass {arm.pass_index}")
                end = _run_arm(engine, items, arm, writer, shelf, options, run_id, progress)
                if not end.completed:
                    raise EngineError(f"{experiment}, {arm.note}: {end.reason}")
    finally:
        shelf.close()


def _run_arm(
    engine: Engine,
    items: Sequence[Item],
    arm: CellArm,
    writer: TraceWriter,
    shelf: SpillingShelf,
    options: IsolateOptions,
    run_id: str,
    progress: ArmProgress,
) -> ArmEnd:
    plan = ArmPlan(
        state=arm.state,
        priming=default_priming(arm.state),
        way=Way.FIXED,
        place=RunPlace(run_id=run_id),
        sampling=Sampling(max_new_tokens=options.max_new_tokens),
        repeat=arm.repeat,
        pass_index=arm.pass_index,
        start_from=StartFrom.FRESH if arm.fresh else StartFrom.AS_LEFT,
        reference_arm=0 if arm.state is CacheState.SNAPSHOT else None,
        states_met=shelf if arm.state is CacheState.SNAPSHOT else None,
        keep_states=shelf if arm.keeps_states else None,
        command=options.command,
        environment=dict(os.environ),
        note=arm.note,
    )
    if arm.second_layer is not None:
        if arm.fresh:
            engine.set_layers(prefix_cache=True, prompt_cache=arm.second_layer)
        engine = cast(Engine, HeldLayers(engine))
    source = ItemSource(list(reversed(items)) if arm.reverse else items)
    return execute_arm(engine, plan, source, writer, progress)
