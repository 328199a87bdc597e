"""What bisect and study share about the processes that hold their engines: how they end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import NoReturn

ENDING_S = 15.0
"""How long a child may take to close its engine once it has answered or was asked to stop."""


def end_with_parent() -> NoReturn:
    """Run on a thread of the child: a killed parent must not leave an engine on the cores of the next."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdin.buffer.read()
    os._exit(1)


def let_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a child to end by itself, then make it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_S)
    if process.poll() is None:
        process.kill()
        process.wait()


def signal_name(code: int) -> str | None:
    """The signal that ended a process, None when none did."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return None


def own_environment() -> dict[str, str]:
    """The user's environment without what would put other modules in front of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
