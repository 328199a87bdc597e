"""What ``cachetrace replay`` does: from words on the command line to arms in files and a summary."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from replay.arm_schedule import DEFAULT_REPEATS, ReplayOptions
from replay.directory_run import replay_folder, traces_of
from replay.divergence import analyse, resolve_arm
from replay.engine_guard import settings_as_recorded
from replay.recorded_source import source_arm
from replay.replay_run import ReplayedArm, opened
from replay.summary import summary_lines
from tracer.engines.choice import EngineChoice
from tracer.episode import CacheState, Carry, Priming, Way
from tracer.errors import EngineError, UsageError
from tracer.output_folder import make_folder
from tracer.progress import progress_for
from tracer.recording import carry_of, keeps_rows, this_command
from tracer.tracefile import TraceReader

_STATES = tuple(CacheState)
_PRIMINGS = (Priming.OWN, Priming.LOCKSTEP, Priming.SELF, Priming.PROMPT_ONLY)
_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCommand:
    """One call of the command."""

    paths: tuple[Path, ...]
    options: ReplayOptions
    baseline: str | None = None
    quiet: bool = False

    @classmethod
    def parse(
        cls,
        *,
        path: Path,
        state: str,
        repeat: int | None,
        passes: int | None,
        priming: str | None,
        closed_loop: bool,
        forced: bool,
        source: str | None,
        baseline: str | None,
        logits: str,
        requests: int | None,
        carry_over: bool,
        sentinel: bool,
        again: bool,
        anyway: bool,
        output: Path | None,
        quiet: bool,
    ) -> ReplayCommand:
        """Raises ``UsageError`` that names the option at fault."""
        if repeat is not None and passes is not None:
            raise UsageError("--repeat starts fresh each time and --passes does not; give one of them.")
        if closed_loop and forced:
            raise UsageError("--closed-loop follows this arm's own answers and --forced none; choose one.")
        carry = carry_of(carry_over=carry_over, sentinel=sentinel)
        options = ReplayOptions(
            states=_words("--state", state, _STATES),
            primings=() if priming is None else _words("--priming", priming, _PRIMINGS),
            way=Way.CLOSED_LOOP if closed_loop else Way.FORCED if forced else Way.FIXED,
            repeats=1 if passes else repeat or DEFAULT_REPEATS,
            passes=passes or 1,
            source=source,
            anyway=anyway,
            again=again,
            keep_rows=keeps_rows(logits),
            requests=requests,
            carry=carry,
            command=this_command(),
        )
        return cls(paths=_traces(path, output, carry), options=options, baseline=baseline, quiet=quiet)

    def run(self, choice: EngineChoice) -> Iterator[str]:
        """Replay and yield the lines of the summary. Raises ``EngineError`` at the end if an arm failed."""
        progress = progress_for(quiet=self.quiet)
        with TraceReader.open(self.paths[0]) as trace:
            if self.baseline is not None and self.baseline.isdecimal():
                resolve_arm(trace, self.baseline)
            choice = settings_as_recorded(choice, source_arm(trace, self.options.source).engine)
        failed: list[str] = []

        def finished(path: Path, arms: Sequence[ReplayedArm]) -> None:
            failed.extend(
                f"{path.name}, {done.arm.label}: {done.end.reason}" for done in arms if not done.end.completed
            )

        with opened(choice) as engine:
            try:
                replay_folder(engine, self.paths, self.options, progress, finished)
            except KeyboardInterrupt:
                progress.note("Take it up again with the same command.")
                raise
        for path in self.paths:
            yield from self._summary(path)
        if failed:
            more = f" (and {len(failed) - 1} more arms)" if len(failed) > 1 else ""
            raise EngineError(f"{failed[0]}{more}")

    def _summary(self, path: Path) -> Iterator[str]:
        with TraceReader.open(path) as trace:
            analysis = analyse(trace, baseline=self.baseline, anyway=self.options.anyway)
            if len(self.paths) > 1:
                yield f"{path}:"
            yield from summary_lines(trace, analysis)


def _traces(path: Path, output: Path | None, carry: Carry) -> tuple[Path, ...]:
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    if path.is_dir():
        if output is not None:
            raise UsageError("-o copies one trace file; copy the folder yourself and replay the copy.")
        return tuple(traces_of(path))
    if carry is not Carry.EMPTIED:
        raise UsageError("--carry-over and --sentinel are for a folder of episodes; give the folder.")
    if output is None:
        return (path,)
    if output.exists():
        raise UsageError(f"{output} exists already; name another copy with -o, or replay {output} itself.")
    TraceReader.open(path).close()  # raises when it is no trace file, before anything is copied
    make_folder(output.parent)
    try:
        shutil.copyfile(path, output)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written ({error.strerror}); name another copy with -o."
        ) from error
    return (output,)


def _words(option: str, text: str, known: tuple[_Word, ...]) -> tuple[_Word, ...]:
    """Comma-separated words, each once, in the order given."""
    given = [word.strip() for word in text.split(",") if word.strip()]
    by_name = {str(word): word for word in known}
    for word in given:
        if word not in by_name:
            raise UsageError(f"{option} takes one or more of: {', '.join(known)}.")
    if not given:
        raise UsageError(f"{option} takes one or more of: {', '.join(known)}.")
    return tuple(dict.fromkeys(by_name[word] for word in given))
