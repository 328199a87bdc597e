"""One run of ``cachetrace record``: which episodes, where their files go, in which order."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tracer.engines.base import Engine
from tracer.engines.choice import EngineChoice
from tracer.episode import ArmEnd, CacheState, Carry, Message, Priming, RunPlace, Sampling
from tracer.errors import EngineError, TraceFormatError, UsageError
from tracer.output_folder import make_folder
from tracer.progress import ArmProgress, progress_for
from tracer.recording import (
    CARRIED_RUN,
    RecordingSettings,
    carry_of,
    keeps_rows,
    new_run_id,
    record_episode,
    resume_recording,
    this_command,
)
from tracer.state_shelf import discard_states, states_folder
from tracer.workloads.base import Workload
from tracer.workloads.registry import family

SUFFIX = ".msgpack"
SENTINEL_TEXT = "This request only fills the cache with something else. Answer with one word: ready."
_RECORDABLE = (CacheState.WARM, CacheState.NO_PROMPT_CACHE, CacheState.COLD, CacheState.AS_SERVED)
_PRIMINGS = (Priming.OWN, Priming.SELF, Priming.PROMPT_ONLY, Priming.NONE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SMALL_MODEL_PARAMETERS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadWish:
    """What the command line says about the task."""

    name: str = "office"
    options: dict[str, Any]
    first: int | None = None

    @classmethod
    def parse(cls, *, name: str, first: int | None, **options: Any) -> WorkloadWish:
        """Raises ``UsageError`` for a word that no workload knows."""
        _one_of("--agent", options.get("agent"), ("model", "oracle"))
        _one_of("--history", options.get("history"), ("ids", "messages"))
        return cls(name=name, first=first, options=options)

    def workloads(self, engine: Engine, progress: ArmProgress) -> list[Workload]:
        """The episodes, in order."""
        options = dict(self.options)
        if self.name == "office" and options.get("agent") is None:
            options["agent"] = _agent_for(engine)
            progress.note(f"office: the {options['agent']} drives (choose with --agent).")
        found = list(family(self.name).episodes(**options))
        return found[: self.first]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One line of the command's output."""

    path: Path
    end: ArmEnd

    def as_json(self) -> str:
        """One JSON object."""
        end = self.end
        return json.dumps(
            {
                "path": str(self.path),
                "requests": end.requests,
                "completed": end.completed,
                "reason": end.reason,
                "elapsed_s": end.elapsed_s,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRun:
    """How the run treats its episodes and its files."""

    settings: RecordingSettings
    sentinel: bool = False
    force: bool = False
    resume: bool = False
    quiet: bool = False

    @classmethod
    def parse(
        cls,
        *,
        state: str,
        priming: str | None,
        max_new_tokens: int,
        seed: int,
        temperature: float,
        top_k: int,
        logits: str,
        keep_states: bool,
        carry_over: bool,
        sentinel: bool,
        force: bool,
        resume: bool,
        quiet: bool,
    ) -> RecordRun:
        """From the command line. Raises ``UsageError`` that names the option at fault."""
        _one_of("--state", state, _RECORDABLE)
        _one_of("--priming", priming, _PRIMINGS)
        carry = carry_of(carry_over=carry_over, sentinel=sentinel)
        if resume and carry is not Carry.EMPTIED:
            raise UsageError(CARRIED_RUN)
        settings = RecordingSettings(
            state=CacheState(state),
            priming=None if priming is None else Priming(priming),
            sampling=Sampling(temperature=temperature, seed=seed, max_new_tokens=max_new_tokens),
            top_k=top_k,
            keep_rows=keeps_rows(logits),
            keep_states=keep_states,
            carry=carry,
            command=this_command(),
            environment=dict(os.environ),
        )
        return cls(settings=settings, sentinel=sentinel, force=force, resume=resume, quiet=quiet)

    def record(self, choice: EngineChoice, wish: WorkloadWish, output: Path | None) -> Iterator[Recorded]:
        """Record every episode; yields each file when its arm has ended.

        An engine that fails one episode goes on with the next; one that died does not. Raises
        ``EngineError`` at the end if any arm failed.
        """
        from tracer.engines.registry import open_engine

        progress = progress_for(quiet=self.quiet)
        engine = open_engine(choice)
        try:
            yield from self._episodes(engine, wish, output, progress)
        except KeyboardInterrupt:
            if self.settings.carry is Carry.EMPTIED:
                again = this_command() if self.resume else f"{this_command()} --resume"
                progress.note(f"Take it up again with: {_scrubbed(again)}")
            raise
        finally:
            engine.close()

    def _episodes(
        self, engine: Engine, wish: WorkloadWish, output: Path | None, progress: ArmProgress
    ) -> Iterator[Recorded]:
        workloads = wish.workloads(engine, progress)
        paths = output_paths(workloads, output, wish.name)
        if not (self.force or self.resume):
            _refuse_existing(paths)
        settings = self._with_sentinel(engine)
        run_id, predecessor = new_run_id(), None
        failed: list[str] = []
        for position, (workload, path) in enumerate(zip(workloads, paths, strict=True)):
            place = RunPlace(run_id=run_id, position=position, predecessor=predecessor, carry=settings.carry)
            predecessor = workload.episode_id
            end = self._one(engine, workload, path, settings, place, progress)
            if end is None:
                continue
            yield Recorded(path, end)
            if not end.completed:
                failed.append(f"{path.name}: {end.reason}")
                if end.reason and end.reason.startswith("the engine died"):
                    break
        if failed:
            more = f" ({len(failed)} of {len(paths)} episodes failed)" if len(paths) > 1 else ""
            raise EngineError(f"{failed[0]}{more}")

    def _one(
        self,
        engine: Engine,
        workload: Workload,
        path: Path,
        settings: RecordingSettings,
        place: RunPlace,
        progress: ArmProgress,
    ) -> ArmEnd | None:
        make_folder(path.parent)
        if self.resume and path.exists():
            end = resume_recording(engine, path, settings, place, progress)
            if end is None:
                progress.note(f"{path.name} is complete.")
            return end
        if self.force:
            _remove_trace(path)
        return record_episode(engine, workload, path, settings, place, progress)

    def _with_sentinel(self, engine: Engine) -> RecordingSettings:
        if not self.sentinel:
            return self.settings
        import dataclasses

        text = engine.render([Message(role="user", content=SENTINEL_TEXT)])
        return dataclasses.replace(self.settings, sentinel_ids=tuple(engine.tokenize(text)))


def output_paths(workloads: list[Workload], output: Path | None, name: str) -> list[Path]:
    """One file for one episode; for several a folder, with the episode's id as each file's name."""
    if not workloads:
        raise UsageError("there is no episode to record.")
    if len(workloads) == 1 and not (output is not None and output.is_dir()):
        return [output or Path(f"{name}{SUFFIX}")]
    folder = output or Path(name)
    if folder.suffix == SUFFIX:
        raise UsageError(f"{len(workloads)} episodes do not go into one file; give a folder with -o.")
    names = [_UNSAFE.sub("_", workload.episode_id).strip(".") or "episode" for workload in workloads]
    if len({n.casefold() for n in names}) != len(names):
        names = [f"{position:05d}-{n}" for position, n in enumerate(names)]
    return [folder / f"{n[:120]}{SUFFIX}" for n in names]


def _refuse_existing(paths: list[Path]) -> None:
    there = next((path for path in paths if path.exists()), None)
    if there is not None:
        raise UsageError(
            f"{there} exists already; name another with -o, take it up with --resume, or replace it with "
            "--force."
        )


def _remove_trace(path: Path) -> None:
    """Remove what a new recording replaces: a trace file of ours, and nothing else."""
    from tracer.tracefile import TraceWriter, read_header

    if not path.exists():
        return
    read_header(path)  # raises when it is no trace file
    with contextlib.suppress(TraceFormatError):  # a damaged one may go; one that is being written may not
        TraceWriter.append(path).close()
    path.unlink()
    discard_states(states_folder(path))


def _agent_for(engine: Engine) -> Literal["model", "oracle"]:
    """A model of less than a billion parameters cannot call tools reliably, so the oracle drives it."""
    parameters = engine.info.parameters
    return "model" if parameters is not None and parameters >= _SMALL_MODEL_PARAMETERS else "oracle"


def _one_of(option: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise UsageError(f"{option} takes one of: {', '.join(known)}.")


def _scrubbed(command: str) -> str:
    from tracer.tracefile.scrub import scrub_command

    return scrub_command(command)
