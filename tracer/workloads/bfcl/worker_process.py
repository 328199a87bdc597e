"""Our end of a worker: start it, ask it, and end it when it takes too long."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from tracer.errors import CachetraceError

START_LIMIT_S = 60.0
STEP_LIMIT_S = 30.0
SCORE_LIMIT_S = 60.0
LONGEST_ANSWER = 64 << 20
"""Characters of one answer line; the worker's memory limit bounds it as well."""

_ROOT = Path(__file__).resolve().parents[3]
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from tracer.workloads.bfcl.worker import main; main(sys.argv[2], sys.argv[3])"
)
_TEMPORARY = tempfile.TemporaryDirectory[str]


class WorkerLost(CachetraceError):
    """The worker took too long, ran out of its limits, or ended: its episode cannot go on."""


class WorkerProcess:
    """One fresh process for one episode of one arm."""

    def __init__(self, wheel: Path, episode_id: str, *, step_limit_s: float = STEP_LIMIT_S) -> None:
        self._step_limit_s = step_limit_s
        self._folder = tempfile.TemporaryDirectory(prefix="cachetrace-bfcl-")
        self._process = _launch(wheel, Path(self._folder.name))
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._end = weakref.finalize(self, _end, self._process, self._folder)
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        self.refused: list[str] = []
        """What the sandbox refused so far, in order."""
        self.opening: dict[str, Any] = self._ask({"do": "start", "episode": episode_id}, START_LIMIT_S)

    def step(self, text: str) -> dict[str, Any]:
        """Gate, decode and execute one answer of the model."""
        return self._ask({"do": "step", "with": text}, self._step_limit_s)

    def decode(self, text: str) -> dict[str, Any]:
        """Gate and decode one answer, executing nothing."""
        return self._ask({"do": "decode", "with": text}, self._step_limit_s)

    def score(self, turns: list[list[list[str]]]) -> dict[str, Any]:
        """The official verdict on calls by turn and step; only for a worker that has run no step."""
        return self._ask({"do": "score", "with": turns}, SCORE_LIMIT_S)

    def close(self) -> None:
        """End the process and remove its folder."""
        self._end()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, question: dict[str, Any], limit_s: float) -> dict[str, Any]:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            self.close()
            raise WorkerLost(f"the tool worker was ended after {limit_s:g} s without an answer") from None
        except (OSError, ValueError):  # a broken or closed pipe
            line = None
        if line is None:
            status = self._process.wait()
            self.close()
            raise WorkerLost(
                f"the tool worker ended by itself (status {status}), perhaps at one of its limits"
            )
        answer: dict[str, Any] = json.loads(line)
        self.refused += answer.pop("refused", [])
        if "error" in answer:
            self.close()
            raise WorkerLost(f"the tool worker failed: {answer['error']}")
        return answer


def _launch(wheel: Path, folder: Path) -> subprocess.Popen[str]:
    # -P and a bare environment: nothing of the user's Python settings or of the current folder counts.
    environment = {
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "PYTHONUTF8": "1",
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for name in ("SYSTEMROOT", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return subprocess.Popen(  # noqa: S603  # our own interpreter and our own module
        [sys.executable, "-P", "-c", _START, str(_ROOT), str(wheel.resolve()), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        while line := process.stdout.readline(LONGEST_ANSWER):
            lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str], folder: _TEMPORARY) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    folder.cleanup()
