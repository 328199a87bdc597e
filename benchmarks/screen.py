"""How quick the screen is: first paint, and the time from a key to its paint.

    python -m benchmarks.screen [--pairs 30]

First paint is measured from the start of a process (interpreter, imports, reading, drawing) to the first
frame that shows the trace, in a pseudo-terminal as a user has it. Key to paint is measured in the process,
from the key event to the frame that follows it; a pair is the median of a session of keys. The limit is a
Textual application that shows one line of text, in the same run: only the ratio says much on a busy machine.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.children import CACHETRACE, compiled
from benchmarks.command import Given, run
from benchmarks.rows import Row, against
from benchmarks.traces_child import DRIFT
from benchmarks.turns import Effort, in_turns

BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    def compose(self):
        yield Static("flipped")

Bare().run()
"""
KEYS = tuple("right right down right_square_bracket n left m N a up x 2 f 1 j k".split())  # noqa: SIM905
FIRST_PAINT_MS = 500
KEYS_IN_A_SESSION = 24
PAUSE_S = 0.01
"""Between two keys, so that what one of them left to do is not counted for the next."""
LIMIT = "a Textual application with one line of text"


def rows(_: Given, effort: Effort) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch, compiled() as environment:
        folder = Path(scratch)
        bare = folder / "bare.py"
        bare.write_text(BARE, encoding="utf-8")
        cases = traces(folder, quick=effort.quick)
        sides = {LIMIT: lambda: first_paint_s([str(bare)], b"flipped", environment)}
        for name, path, marker in cases:
            command = [CACHETRACE, "tui", str(path)]
            sides[name] = lambda command=command, marker=marker: first_paint_s(command, marker, environment)
        found = in_turns(effort, sides)
        for name, _path, _marker in cases:
            yield against(
                f"first paint, {name}",
                "ms",
                found[name],
                LIMIT,
                found[LIMIT],
                scale=1000,
                target=f"under {FIRST_PAINT_MS} ms",
                at_most=FIRST_PAINT_MS,
            )
        yield key_latency(cases[0][1], effort)


def traces(folder: Path, *, quick: bool) -> list[tuple[str, Path, bytes]]:
    """(what it is, path, bytes that only the finished first frame holds)."""
    from tests.synthetic import ArmSpec, write_trace

    requests, files = (10, 200) if quick else (100, 1000)
    arms = [ArmSpec(), ArmSpec(state="cold", repeat=1), ArmSpec(state="warm", drift=DRIFT, flips={2: 5})]
    ten = folder / "ten.msgpack"
    write_trace(ten, requests=10, tokens=48, arms=arms, prompt_tokens=400)
    big = folder / "big.msgpack"
    write_trace(
        big, requests=requests, tokens=500, arms=[arms[0], arms[2]], prompt_tokens=200, prompt_growth=1
    )
    many = folder / "many"
    many.mkdir()
    content = ten.read_bytes()
    for number in range(files):
        (many / f"episode-{number:04}.msgpack").write_bytes(content)
    return [
        ("10 requests", ten, b"flipped"),
        (f"{requests * 1000:,} tokens", big, b"flipped"),
        (f"folder of {files:,} traces", many, b"episode-0003"),
    ]


def first_paint_s(arguments: list[str], marker: bytes, environment: dict[str, str]) -> float:
    """Seconds from the start of the process to the marker on the terminal."""
    leader, follower = pty.openpty()
    os.set_blocking(leader, False)
    terminal = {**environment, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    start = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, *arguments], stdin=follower, stdout=follower, stderr=follower, env=terminal
    )
    os.close(follower)
    seen = b""
    try:
        while marker not in seen:
            ready, _, _ = select.select([leader], [], [], 30)
            if not ready:
                raise TimeoutError(f"no first paint within 30 s; seen: {seen[-500:]!r}")
            seen += os.read(leader, 1 << 16)
        return time.perf_counter() - start
    finally:
        child.kill()
        child.wait()
        os.close(leader)


def key_latency(trace: Path, effort: Effort) -> Row:
    """One row over sessions of keys, in turns with the bare application; the slowest keys in its note."""
    ours, bare = applications(trace)
    sessions: list[list[float]] = []

    def session(app: Callable[[], Any], kept: list[list[float]]) -> float:
        latencies = asyncio.run(key_latencies_s(app(), KEYS_IN_A_SESSION))
        gc.collect()  # the application of this session, so that no later one waits for it
        kept.append(latencies)
        return median(latencies)

    sides = {"ours": lambda: session(ours, sessions), "bare": lambda: session(bare, [])}
    found = in_turns(effort, sides)
    every = [latency for latencies in sessions[1:] for latency in latencies]  # without the warm-up
    p95 = quantiles(every, n=20)[-1]
    slow = f"{len(every)} keys: 95 % within {p95 * 1000:.1f} ms, the slowest {max(every) * 1000:.1f} ms"
    return against("key to paint", "ms", found["ours"], LIMIT, found["bare"], scale=1000, note=slow)


def applications(trace: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Ours and the bare one, each with the time of its last frame in ``painted``."""
    from textual import events
    from textual.app import App, ComposeResult
    from textual.widgets import Static

    from tui.app import TraceApp

    class Painted:
        painted = 0.0

        def _display(self, screen: Any, renderable: Any) -> None:
            super()._display(screen, renderable)  # type: ignore[misc]
            self.painted = time.perf_counter()

    class Ours(Painted, TraceApp):
        """The screen as it is."""

    class Bare(Painted, App[None]):
        """One line that counts the keys."""

        keys = 0

        def compose(self) -> ComposeResult:
            yield Static("0")

        def on_key(self, _: events.Key) -> None:
            self.keys += 1
            self.query_one(Static).update(str(self.keys))

    return lambda: Ours(trace), Bare


async def key_latencies_s(app: Any, keys: int) -> list[float]:
    """Seconds from each key to the end of the frame that follows it; keys without a frame are left out."""
    from textual import events

    latencies = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        for key in islice(cycle(KEYS), keys):
            app.painted = 0.0
            start = time.perf_counter()
            app.post_message(events.Key(key, None))
            while not app.painted and time.perf_counter() - start < 0.2:
                await asyncio.sleep(0)
            if app.painted:
                latencies.append(app.painted - start)
            await asyncio.sleep(PAUSE_S)
    return latencies


if __name__ == "__main__":
    run(rows, "the screen", __doc__)
