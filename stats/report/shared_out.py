"""Many traces read by several processes. What comes back is encoded records, in the order of the files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from stats.report.collect import CollectOptions, collect
from stats.report.records import Collection
from tracer.errors import CachetraceError

HOME = Path(__file__).resolve().parents[2]
START = "import sys; sys.path.insert(0, sys.argv[1]); from stats.report.shared_out import answer; answer()"


class Share(Struct, frozen=True):
    """What one process is to do."""

    files: list[str]
    options: CollectOptions


def collect_shared_out(files: Sequence[Path], options: CollectOptions, workers: int) -> Collection:
    """As ``collect`` in one process; this process takes a share itself.

    Plain child processes and not ``multiprocessing``, which runs the caller's main module again.
    """
    shares = [list(files[first::workers]) for first in range(workers)]
    children = [_start(Share([str(f) for f in share], options)) for share in shares[1:]]
    try:
        parts = [collect(shares[0], options, workers=1), *(_finish(child) for child in children)]
    finally:
        for child in children:
            child.kill()
    place = {str(file): i for i, file in enumerate(files)}
    episodes = [episode for part in parts for episode in part.episodes]
    unreadable = [file for part in parts for file in part.unreadable]
    return Collection(
        episodes=tuple(sorted(episodes, key=lambda e: place[e.path])),
        unreadable=tuple(sorted(unreadable, key=lambda f: place[f.path])),
    )


def _start(share: Share) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(  # noqa: S603  # our own interpreter and our own words
        [sys.executable, "-P", "-c", START, str(HOME)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    child.stdin.write(msgspec.msgpack.encode(share))
    child.stdin.close()
    return child


def _finish(child: subprocess.Popen[bytes]) -> Collection:
    assert child.stdout is not None
    raw = child.stdout.read()
    child.stdout.close()
    if child.wait() != 0:
        raise CachetraceError(
            "A process that read a part of the traces ended early; its message stands above."
        )
    return msgspec.msgpack.decode(raw, type=Collection)


def answer() -> None:
    """What a child process runs: a share from stdin, its records to stdout."""
    share = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Share)
    found = collect([Path(file) for file in share.files], share.options, workers=1)
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))
