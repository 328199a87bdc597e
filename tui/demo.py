"""The demo: record a short episode with the small model, replay it under every state, report, look."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.episode import CacheState, Way
from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.engines.choice import EngineChoice

DEFAULT_FILE = Path("cachetrace-demo.msgpack")
STATES = (CacheState.COLD, CacheState.WARM, CacheState.SNAPSHOT, CacheState.NO_PROMPT_CACHE)
REPEATS = 2
TURNS = 5
"""The model drives: five answers in words hold enough near ties for one to flip on the processors tried."""
NEW_TOKENS = 48
_RECORDED = "demo-*.msgpack"


def record_and_replay(path: Path, choice: EngineChoice, *, turns: int, quiet: bool) -> None:
    """Record the office task and replay the four states, each twice. What the file has is not run again."""
    from replay.arm_schedule import ReplayOptions
    from replay.replay_run import replay_trace
    from tracer.progress import progress_for
    from tracer.record_run import RecordRun, WorkloadWish
    from tracer.recording import this_command

    wish = WorkloadWish.parse(name="office", first=None, turns=turns, agent="model")
    run = RecordRun.parse(
        state="warm",
        priming=None,
        max_new_tokens=NEW_TOKENS,
        seed=42,
        temperature=0.0,
        top_k=20,
        logits="top",
        keep_states=False,
        carry_over=False,
        sentinel=False,
        force=False,
        resume=path.exists(),
        quiet=quiet,
    )
    for _ in run.record(choice, wish, path):
        pass
    replay_trace(
        path,
        choice,
        ReplayOptions(states=STATES, repeats=REPEATS, command=this_command()),
        progress_for(quiet=quiet),
    )


def is_complete(path: Path) -> bool:
    """Whether the file has the recording and both runs of every state already: then no engine is needed."""
    if not path.exists():
        return False
    from tracer.tracefile import read_header

    head = read_header(path)
    replayed = [one.arm.state for one in head.arms if one.arm.way is not Way.RECORDED and one.complete]
    return head.complete and not head.damaged and all(replayed.count(state) >= REPEATS for state in STATES)


def printed_report(path: Path, width: int) -> str:
    """The report's tables for the terminal."""
    from stats.renderers.choose import render
    from stats.report.build import build_report
    from stats.report.collect import CollectOptions, collect

    built = build_report(collect([path], CollectOptions()), command=f"cachetrace report {path}")
    return render(built, "table", width)


def recorded_copy() -> Path:
    """The shipped trace, copied to the user's data folder: a replay from the screen may write into it."""
    shipped = sorted((Path(__file__).resolve().parent.parent / "fixtures").glob(_RECORDED))
    if not shipped:
        raise UsageError(
            "This installation carries no recorded demo; run cachetrace demo without --recorded."
        )
    from platformdirs import user_data_path

    target = user_data_path("cachetrace", ensure_exists=True) / shipped[0].name
    if not target.exists() or target.stat().st_size < shipped[0].stat().st_size:
        shutil.copyfile(shipped[0], target)
    return target
