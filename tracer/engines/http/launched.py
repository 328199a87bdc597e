"""A server process of our own: started, watched through its log, stopped, and its death explained."""

from __future__ import annotations

import atexit
import ctypes
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from tracer.engines.http.endpoint import Endpoint
from tracer.errors import EngineError, EngineMissing

_KEPT_LINES = 1000
_STOP_WAIT_S = 10.0
_POLL_S = 0.05
_SET_PARENT_DEATH_SIGNAL = 1


class LaunchedServer:
    """One run of the server binary on a free port of the loopback interface.

    The log is read in a thread: a full pipe would stop the server.
    """

    def __init__(
        self,
        port: int,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        health_path: str = "/health",
        start_timeout_s: float,
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._stopped = False
        self._health_path = health_path
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the user's own binary, named on the command line
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                preexec_fn=_die_with_parent(),  # one system call, resolved before the fork
            )
        except OSError as problem:
            raise EngineMissing(
                f"The server {command[0]!r} cannot be started ({problem.strerror}); check --server-bin."
            ) from problem
        self._reader = threading.Thread(target=self._read, name="server log", daemon=True)
        self._reader.start()
        atexit.register(self.stop)
        try:
            self._wait(start_timeout_s)
        except BaseException:
            self.stop()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip())

    def _wait(self, timeout_s: float) -> None:
        """Until the server says that it is healthy. Raises ``EngineMissing`` when it does not."""
        endpoint, deadline = Endpoint(self.url, timeout_s=5.0), time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline:
                if not self.alive:
                    raise EngineMissing(f"The server ended before it was ready ({self.death()}).")
                if _healthy(endpoint, self._health_path):
                    return
                time.sleep(_POLL_S)
        finally:
            endpoint.close()
        raise EngineMissing(f"The server was not ready within {timeout_s:.0f} s; give more with --timeout.")

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def death(self) -> str:
        """How the process ended, with the last thing that it said."""
        code = self._process.poll()
        if code is None:
            return "it still runs"
        self._reader.join(timeout=1.0)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = _telling_line(self.lines)
        return f"{how}; its last words: {said}" if said else how

    def wait_for_death(self, seconds: float = 2.0) -> bool:
        """A broken connection is noticed before the process is gone; True when it has ended."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End the process; it is killed when it does not go by itself."""
        if self._stopped:
            return
        self._stopped = True
        atexit.unregister(self.stop)
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(timeout=1.0)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _die_with_parent() -> Callable[[], None] | None:
    """Has the kernel end the server when we are killed hard; else it would stay behind, unseen.

    Linux only. The kernel means the thread that starts the server, so only the main thread asks.
    """
    if not sys.platform.startswith("linux") or threading.current_thread() is not threading.main_thread():
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask_kernel() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))

    return ask_kernel


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _healthy(endpoint: Endpoint, path: str) -> bool:
    try:
        return endpoint.get(path).ok
    except EngineError:
        return False


_TELLING = ("GGML_ASSERT", "error", "Error", "failed", "terminate", "abort")


def _telling_line(lines: Sequence[str]) -> str:
    """The last line that explains something, else the last line."""
    recent = [line for line in list(lines)[-60:] if line.strip()]
    for line in reversed(recent):
        if any(word in line for word in _TELLING):
            return line.strip()[:300]
    return recent[-1].strip()[:300] if recent else ""
