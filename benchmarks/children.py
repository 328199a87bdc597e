"""Child processes: how long, how much processor time, how much memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHETRACE = str(ROOT / "cachetrace.py")
TRACES = ["-m", "benchmarks.traces_child"]
READ_BYTES = "a Python that imports numpy and reads the same bytes"
"""What ``traces_child read`` is: no report can be read with less."""


@dataclass(frozen=True)
class Spent:
    """What one child process cost, its own children included; memory is that of the largest alone.

    The kernel lets a child begin with the peak of the process that started it, so the starting
    process must be small itself: nothing that starts children for their memory imports numpy.
    """

    wall_s: float
    processor_s: float
    peak_mb: float


@contextmanager
def compiled() -> Iterator[dict[str, str]]:
    """An environment in which imports find compiled modules, as they do where a package was installed.

    The compiled modules lie in a temporary folder; the warm-up of a measurement fills it.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def spent(arguments: Sequence[str], environment: dict[str, str]) -> Spent:
    """Run this interpreter with the arguments to its end, output unread; it must end with 0."""
    command = [sys.executable, *arguments]
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
    return Spent(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def make(what: str, folder: Path, *numbers: int) -> None:
    """Have traces made by another process, so that this one stays small."""
    command = [sys.executable, *TRACES, what, str(folder), *map(str, numbers)]
    subprocess.run(command, cwd=ROOT, check=True)
