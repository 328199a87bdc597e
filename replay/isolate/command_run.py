"""What ``cachetrace isolate`` does, from words on the command line to files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replay.isolate.experiments import Experiment
from replay.isolate.items import built_in_items, items_of_trace
from replay.isolate.outcomes import outcomes
from replay.isolate.run import DEFAULT_ITEMS, IsolateOptions, ItemsFor, run_isolate
from replay.recorded_source import source_arm
from replay.replay_run import opened
from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.errors import UsageError
from tracer.progress import progress_for
from tracer.recording import this_command
from tracer.tracefile import TraceReader


def run_command(
    *,
    path: Path | None,
    choice: EngineChoice,
    folder: Path,
    experiments: str | None,
    items: int | None,
    max_new_tokens: int,
    quiet: bool,
) -> Iterator[str]:
    """Yields each finished trace file, then its counts line by line.

    Raises ``UsageError`` for words that mean nothing.
    """
    options = IsolateOptions(
        experiments=_experiments(experiments), max_new_tokens=max_new_tokens, command=this_command()
    )
    progress = progress_for(quiet=quiet)
    with opened(choice) as engine:
        for written in run_isolate(engine, _items(engine, path, items), folder, options, progress):
            yield str(written)
            with TraceReader.open(written) as trace:
                yield from (f"  {outcome.sentence}" for outcome in outcomes(trace))


def _items(engine: Engine, path: Path | None, count: int | None) -> ItemsFor:
    if path is not None:
        with TraceReader.open(path) as trace:
            recorded = items_of_trace(trace, source_arm(trace).index, count)
        return lambda _: recorded
    return items_for(engine, DEFAULT_ITEMS if count is None else count)


def items_for(engine: Engine, count: int) -> ItemsFor:
    """Built-in items: with a shared prefix where neighbours shall meet each other's tokens, else without."""
    layers = (Experiment.SECOND_LAYER, Experiment.PASS_ORDER)
    return lambda experiment: built_in_items(engine, count, shared_prefix=experiment not in layers)


def _experiments(text: str | None) -> tuple[Experiment, ...]:
    if text is None:
        return tuple(Experiment)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not set(names) <= set(Experiment):
        raise UsageError(f"--experiment takes one or more of: {', '.join(Experiment)}.")
    return tuple(Experiment(name) for name in dict.fromkeys(names))
