"""The parent's side of a replay in a child process: start it, follow it, stop it, say how it ended.

The parent sees new requests by refreshing its ``TraceReader``; events only say how far the child is.
Whatever ends the child, the trace file stays good and the same replay takes the arm up again.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from enum import StrEnum
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from replay.arm_schedule import ReplayOptions
from replay.child import STOPPED_EXIT_CODE, ChildEvent, ChildOrder
from tracer.engines.choice import EngineChoice

_HOME = Path(__file__).resolve().parent.parent
_START = "import sys; sys.path.insert(0, sys.argv[1]); from replay.child import main; main()"
_LOG_LINES = 20
_LONGEST_LINE = 1 << 16
GRACE_S = 5.0
"""How long a stopped child may finish its batch before it is ended."""


class Ending(StrEnum):
    """How a child ended."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    DIED = "died"


class ChildOutcome(Struct, frozen=True, kw_only=True):
    """The end of a child. ``sentence`` is for people and may hold text of an engine: clean it to show it."""

    ending: Ending
    sentence: str = ""
    log: tuple[str, ...] = ()
    """Last lines of the child's stderr (the native library writes there)."""


class ReplayChild:
    """A running replay. ``events`` and ``outcome`` never block; call them as often as wanted."""

    def __init__(self, trace: Path, choice: EngineChoice, options: ReplayOptions) -> None:
        """Start the child. Its module path is ours, whatever PYTHONPATH or the folder says."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
            [sys.executable, "-P", "-c", _START, str(_HOME)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # Ctrl-C in the terminal goes to the screen, which then stops the child by itself.
            start_new_session=True,
        )
        self._events: queue.SimpleQueue[ChildEvent] = queue.SimpleQueue()
        self._failed: ChildEvent | None = None
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._stopping = False
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = (
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True),
        )
        for reader in self._readers:
            reader.start()
        order = ChildOrder(trace=str(trace), choice=choice, options=msgspec.Raw(msgspec.json.encode(options)))
        self._write(msgspec.json.encode(order) + b"\n")

    @property
    def pid(self) -> int:
        return self._process.pid

    def events(self) -> list[ChildEvent]:
        """What happened since the last call."""
        found: list[ChildEvent] = []
        while True:
            try:
                found.append(self._events.get_nowait())
            except queue.Empty:
                return found

    def outcome(self) -> ChildOutcome | None:
        """How the child ended; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        for reader in self._readers:
            reader.join()
        self._close_stdin()
        return self._outcome_of(code)

    def wait(self, timeout_s: float | None = None) -> ChildOutcome:
        """Block until the end. Raises ``subprocess.TimeoutExpired``."""
        self._process.wait(timeout_s)
        outcome = self.outcome()
        assert outcome is not None
        return outcome

    def stop(self, grace_s: float = GRACE_S) -> ChildOutcome:
        """Stop the replay: it may finish what it is computing for ``grace_s``, then it is ended."""
        self._stopping = True
        self._close_stdin()
        try:
            return self.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self.wait()

    def _outcome_of(self, code: int) -> ChildOutcome:
        log = tuple(self._log)
        if self._failed is not None and self._failed.sentence is not None:
            return ChildOutcome(ending=Ending.FAILED, sentence=self._failed.sentence, log=log)
        if code == 0:
            return ChildOutcome(ending=Ending.DONE, log=log)
        if self._stopping or code == STOPPED_EXIT_CODE:
            sentence = "the replay was stopped; what it wrote is kept, and the same replay takes it up again."
            return ChildOutcome(ending=Ending.STOPPED, sentence=sentence, log=log)
        sentence = f"the engine process died ({_cause(code)}); what it wrote is kept."
        return ChildOutcome(ending=Ending.DIED, sentence=sentence, log=log)

    def _read_events(self, out: IO[bytes]) -> None:
        with out:
            for line in iter(lambda: out.readline(_LONGEST_LINE), b""):
                try:
                    event = msgspec.json.decode(line, type=ChildEvent)
                except msgspec.MsgspecError:
                    continue  # a native library wrote to stdout
                if event.kind == "failed":
                    self._failed = event
                self._events.put(event)

    def _read_log(self, err: IO[bytes]) -> None:
        with err:
            for line in iter(lambda: err.readline(_LONGEST_LINE), b""):
                self._log.append(line.decode("utf-8", "replace").rstrip())

    def _write(self, order: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order)
            self._process.stdin.flush()
        except OSError:
            self._close_stdin()  # it died at once; outcome() says how

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            return  # the other end is gone already


def _cause(code: int) -> str:
    """The signal that ended a process, or its exit code."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
