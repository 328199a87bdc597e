"""How quick the screen is: first paint, and the time from a key to its paint.

    python benchmarks/screen.py [--keys 500] [--runs 3]

First paint is measured from the start of a process (interpreter, imports, reading, drawing) to the
first frame that shows the trace, in a pseudo-terminal as a user has it. Key to paint is measured in
the process, from the key event to the frame that follows it. A bare Textual application is measured
beside it: on a busy machine only the difference says something, and so does the processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))

from tests.synthetic import ArmSpec, write_trace  # noqa: E402

BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    def compose(self):
        yield Static("flipped")

Bare().run()
"""
KEYS = (
    "right",
    "right",
    "down",
    "right_square_bracket",
    "n",
    "left",
    "m",
    "N",
    "a",
    "up",
    "x",
    "2",
    "f",
    "1",
    "j",
    "k",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE, encoding="utf-8")
        cases = [("a bare Textual application", [str(bare)], b"flipped")]
        command = [str(HOME / "cachetrace.py"), "tui"]
        cases += [(name, [*command, str(path)], marker) for name, path, marker in traces(Path(folder))]
        for name, arguments, marker in cases:
            times = [first_paint_s(arguments, marker) for _ in range(asked.runs)]
            wall, busy = (statistics.median(each) for each in zip(*times, strict=True))
            print(f"first paint, {name}: {wall:.2f} s, of which {busy:.2f} s processor time")
        latencies = asyncio.run(key_latencies_s(Path(folder) / "ten.msgpack", asked.keys))
        latencies.sort()
        p95 = latencies[int(len(latencies) * 0.95)]
        print(
            f"key to paint over {len(latencies)} keys: median {1000 * statistics.median(latencies):.1f} ms, "
            f"95 % {1000 * p95:.1f} ms, longest {1000 * latencies[-1]:.1f} ms"
        )


def traces(folder: Path) -> list[tuple[str, Path, bytes]]:
    """(what it is, path, bytes that only the finished first frame holds)."""
    arms = [ArmSpec(), ArmSpec(state="cold", repeat=1), ArmSpec(state="warm", drift=1e-2, flips={2: 5})]
    ten = folder / "ten.msgpack"
    write_trace(ten, requests=10, tokens=48, arms=arms, prompt_tokens=400)
    big = folder / "big.msgpack"
    write_trace(big, requests=100, tokens=1000, arms=[arms[0], arms[2]], prompt_tokens=200, prompt_growth=1)
    many = folder / "many"
    many.mkdir()
    content = ten.read_bytes()
    for number in range(1000):
        (many / f"episode-{number:04}.msgpack").write_bytes(content)
    return [
        ("10 requests", ten, b"flipped"),
        ("100,000 tokens", big, b"flipped"),
        ("folder of 1,000 traces", many, b"episode-0003"),
    ]


def first_paint_s(arguments: list[str], marker: bytes) -> tuple[float, float]:
    """Seconds from the start of the process to the marker on the terminal, and its processor time."""
    leader, follower = pty.openpty()
    os.set_blocking(leader, False)
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    start = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, *arguments], stdin=follower, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    seen = b""
    try:
        while marker not in seen:
            ready, _, _ = select.select([leader], [], [], 30)
            if not ready:
                raise TimeoutError(f"no first paint within 30 s; seen: {seen[-500:]!r}")
            seen += os.read(leader, 1 << 16)
        elapsed = time.perf_counter() - start
        fields = Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii").split()
        return elapsed, (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    finally:
        child.kill()
        child.wait()
        os.close(leader)


async def key_latencies_s(path: Path, keys: int) -> list[float]:
    """Seconds from each key to the end of the frame that follows it."""
    from textual import events

    from tui.app import TraceApp

    class Timed(TraceApp):
        painted = 0.0

        def _display(self, screen: object, renderable: object) -> None:
            super()._display(screen, renderable)  # type: ignore[arg-type]
            self.painted = time.perf_counter()

    app = Timed(path)
    latencies = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(1.0)
        for number in range(keys):
            key = KEYS[number % len(KEYS)]
            app.painted = 0.0
            start = time.perf_counter()
            app.post_message(events.Key(key, None))
            while not app.painted and time.perf_counter() - start < 0.2:
                await asyncio.sleep(0.0005)
            if app.painted:
                latencies.append(app.painted - start)
            await asyncio.sleep(0.02)
    return latencies


if __name__ == "__main__":
    main()
