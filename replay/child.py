"""The child process of a replay: loads the engine's library before numpy, replays, reports.

Native code can abort, and prefill cannot be interrupted; so the screen and studies run a replay here
and follow the trace file. The first line on stdin is a ``ChildOrder``; stdin stays open for as long as
the child shall go on, and its end (also because the parent died) stops the replay like Ctrl-C. Each
line on stdout is a ``ChildEvent``. ``replay.child_run`` is the parent's side.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from io import RawIOBase
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from tracer.engines.choice import EngineChoice
from tracer.errors import CachetraceError

STOPPED_EXIT_CODE = 130
_PROGRESS_S = 0.1


class ChildOrder(Struct, frozen=True, kw_only=True):
    """What the child shall do. ``options`` is a ``ReplayOptions`` as JSON, decoded after the preload."""

    trace: str
    choice: EngineChoice
    options: msgspec.Raw


class ChildEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. ``kind`` is the name of an ``ArmProgress`` call, ``done`` or ``failed``."""

    kind: str
    label: str | None = None
    planned: int | None = None
    request: int | None = None
    prompt_tokens: int | None = None
    done: int | None = None
    total: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    sentence: str | None = None
    exit_code: int | None = None


def main() -> None:
    """Entry point of the child: replay one file and leave with the exit code of the error, if any."""
    # Unbuffered: a thread that waits inside a buffered reader aborts the interpreter at its end.
    stdin = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    order = msgspec.json.decode(stdin.readline(), type=ChildOrder)
    threading.Thread(target=_stop_when_closed, args=(stdin,), daemon=True).start()
    events = _Events(sys.stdout.buffer)
    try:
        _replay(order, events)
    except CachetraceError as error:
        events.send(ChildEvent(kind="failed", sentence=str(error), exit_code=error.exit_code))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(STOPPED_EXIT_CODE)
    events.send(ChildEvent(kind="done"))


def _replay(order: ChildOrder, events: _Events) -> None:
    from tracer.engines.registry import preload

    preload(order.choice)  # before anything that imports numpy
    from replay.arm_schedule import ReplayOptions
    from replay.replay_run import replay_trace

    options = msgspec.json.decode(order.options, type=ReplayOptions)
    replay_trace(Path(order.trace), order.choice, options, events)


def _stop_when_closed(stdin: RawIOBase) -> None:
    while stdin.read(1):
        pass
    _thread.interrupt_main()


class _Events:
    """An ``ArmProgress`` that writes one JSON line for each call."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._last_progress = 0.0

    def send(self, event: ChildEvent) -> None:
        """Write one event. A parent that is gone reads no more: then the replay stops."""
        try:
            self._out.write(msgspec.json.encode(event) + b"\n")
            self._out.flush()
        except BrokenPipeError:
            raise KeyboardInterrupt from None

    def arm_started(self, label: str, planned: int | None) -> None:
        self.send(ChildEvent(kind="arm_started", label=label, planned=planned))

    def request_started(self, index: int, prompt_tokens: int) -> None:
        self.send(ChildEvent(kind="request_started", request=index, prompt_tokens=prompt_tokens))

    def prompt_progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._last_progress < _PROGRESS_S:
            return
        self._last_progress = now
        self.send(ChildEvent(kind="prompt_progress", done=done, total=total))

    def request_ended(self, index: int, cached_tokens: int | None, output_tokens: int) -> None:
        event = ChildEvent(
            kind="request_ended", request=index, cached_tokens=cached_tokens, output_tokens=output_tokens
        )
        self.send(event)

    def arm_ended(self, label: str, sentence: str) -> None:
        self.send(ChildEvent(kind="arm_ended", label=label, sentence=sentence))

    def note(self, sentence: str) -> None:
        self.send(ChildEvent(kind="note", sentence=sentence))


if __name__ == "__main__":
    main()
