"""A cell's own process: native code can abort, and one engine at a time is loaded.

The child reads its cell as one JSON line, keeps stdin open to notice that its parent is gone, and
writes one JSON line when it ends. Its stderr is the user's.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct

from replay.engine_process import end_with_parent, let_end, own_environment, signal_name
from replay.study.cells import Cell, check_data

_ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.append(sys.argv[1]); from replay.study.child_process import main; main()"
_REPORT = (
    "import sys; sys.path.append(sys.argv[1]); sys.argv = ['cachetrace', *sys.argv[2:]]; "
    "import cachetrace; cachetrace.main()"
)


class CellOrder(Struct, frozen=True, kw_only=True):
    """What a child is asked to do."""

    cell: Cell
    study_folder: str
    quiet: bool = False
    command: str | None = None


class CellReply(Struct, frozen=True, kw_only=True):
    """What a child says in the end. ``reason``: why the cell did not reach its end."""

    episodes: int = 0
    failed: tuple[str, ...] = ()
    too_long: tuple[str, ...] = ()
    reason: str | None = None
    interrupted: bool = False


def run_in_child(order: CellOrder) -> CellReply:
    """Run one cell in a process of its own and wait for it. A crash becomes a reason.

    On Ctrl-C the child is given time to leave its files readable; then ``KeyboardInterrupt`` goes on.
    """
    process = subprocess.Popen(  # noqa: S603  # our own interpreter and our own module
        # The folder is there for the person who looks at the list of processes.
        [sys.executable, "-P", "-c", _START, str(_ROOT), order.study_folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=own_environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
        answer = process.stdout.read()
        code = process.wait()
    except KeyboardInterrupt:
        let_end(process)
        raise
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
    if answer.strip():
        reply = msgspec.json.decode(answer, type=CellReply)
        if reply.interrupted:
            raise KeyboardInterrupt
        return reply
    return CellReply(reason=_how_it_ended(code))


def print_report(folder: Path) -> int:
    """Print the report of a study's folder, as ``cachetrace report`` does; its exit code."""
    command = [sys.executable, "-P", "-c", _REPORT, str(_ROOT), "report", str(folder)]
    sys.stdout.flush()
    return subprocess.run(command, check=False, env=own_environment()).returncode  # noqa: S603  # our own command


def main() -> NoReturn:
    """Entry point of the child."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what native libraries print is no answer
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=CellOrder)
    threading.Thread(target=end_with_parent, daemon=True).start()
    reply = _obey(order)
    answers.write(msgspec.json.encode(reply))
    answers.flush()
    os._exit(0)  # native libraries may hang or abort while they are unloaded; everything is written


def _obey(order: CellOrder) -> CellReply:
    from tracer.engines.registry import preload
    from tracer.errors import CachetraceError

    try:
        check_data(order.cell)
        preload(order.cell.engine)
        from replay.study.cell_run import run_cell
        from tracer.progress import progress_for

        outcome = run_cell(
            order.cell, Path(order.study_folder), progress_for(quiet=order.quiet), order.command
        )
    except CachetraceError as error:
        return CellReply(reason=str(error))
    except KeyboardInterrupt:
        return CellReply(interrupted=True)
    return CellReply(
        episodes=outcome.episodes, failed=tuple(outcome.failed), too_long=tuple(outcome.too_long)
    )


def _how_it_ended(code: int) -> str:
    ended_by = signal_name(code)
    if ended_by is not None:
        return f"its process was ended by {ended_by}"
    return f"its process ended with code {code} and no answer"
