"""One configuration in a process of its own: under a candidate, native code may abort.

The child reads its order as one JSON line and keeps stdin open to notice that its parent is gone; it
writes one JSON line when it ends. Its stderr is the user's. It loads the engine's library before numpy.
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

from replay.bisect.candidates import Configuration
from replay.engine_process import end_with_parent, let_end, own_environment, signal_name
from tracer.engines.choice import EngineChoice
from tracer.episode import Priming
from tracer.errors import CachetraceError, EngineDied, EngineError, StateRefused, UsageError

_ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.append(sys.argv[1]); from replay.bisect.trial_process import main; main()"
_KINDS: dict[str, type[CachetraceError]] = {
    kind.__name__: kind for kind in (EngineError, StateRefused, UsageError)
}


class TrialOrder(Struct, frozen=True, kw_only=True):
    """Everything that the child needs; see ``trial_run.Trials`` for the meaning of the fields."""

    trace: str
    source: int
    choice: EngineChoice
    requests: tuple[int, ...]
    folder: str
    priming: Priming
    run_id: str
    command: str | None
    anyway: bool
    prefix: str
    configuration: Configuration
    repeats: int
    quiet: bool


class TrialReply(Struct, frozen=True, kw_only=True):
    """How it ended. ``kind`` is the class of the error, if there was one."""

    kind: str | None = None
    sentence: str = ""
    interrupted: bool = False


def run_in_child(order: TrialOrder) -> None:
    """Run the trial and wait for it; raises what it raised, ``EngineDied`` when its process died.

    On Ctrl-C the child is given time to leave its file readable; then ``KeyboardInterrupt`` goes on.
    """
    process = subprocess.Popen(  # noqa: S603  # our own interpreter and our own module
        [sys.executable, "-P", "-c", _START, str(_ROOT)],
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
    if not answer.strip():
        raise EngineDied(f"the engine ended its whole process under this configuration ({_how(code)}).")
    reply = msgspec.json.decode(answer, type=TrialReply)
    if reply.interrupted:
        raise KeyboardInterrupt
    if reply.kind is not None:
        raise _KINDS.get(reply.kind, EngineError)(reply.sentence)


def main() -> NoReturn:
    """Entry point of the child."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what native libraries print is no answer
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=TrialOrder)
    threading.Thread(target=end_with_parent, daemon=True).start()
    answers.write(msgspec.json.encode(_obey(order)))
    answers.flush()
    os._exit(0)  # native libraries may hang or abort while they are unloaded; everything is written


def _obey(order: TrialOrder) -> TrialReply:
    from tracer.engines.registry import preload

    try:
        preload(order.choice)
        from replay.bisect.trial_run import run_order

        run_order(order)
    except CachetraceError as error:
        kind = next((name for name, one in _KINDS.items() if isinstance(error, one)), EngineError.__name__)
        return TrialReply(kind=kind, sentence=str(error))
    except KeyboardInterrupt:
        return TrialReply(interrupted=True)
    return TrialReply()


def _how(code: int) -> str:
    return signal_name(code) or f"exit code {code}"
