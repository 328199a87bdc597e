"""Report over the paper's grid: 10 configurations × 80 episodes × 4 arms of 10 requests of 100 tokens.

    python -m benchmarks.grid_report [--pairs 30] [--keep DIR]

The traces are synthetic and are made first (not timed). The report then runs in a process of its own,
path columns only. Memory is that of the largest of its processes: they share the reading out and are
not added up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.children import CACHETRACE, READ_BYTES, TRACES, Spent, compiled, make, spent
from benchmarks.command import Given, run
from benchmarks.rows import Row, against
from benchmarks.turns import Effort, in_turns

LIMIT_S, LIMIT_MB = 3.0, 400.0


def rows(given: Given, effort: Effort) -> Iterator[Row]:
    configurations, episodes = (2, 5) if effort.quick else (10, 80)
    with tempfile.TemporaryDirectory() as scratch, compiled() as environment:
        folder = given.keep or Path(scratch)
        if not any(folder.glob("*.msgpack")):
            make("grid", folder, configurations, episodes)
        arms = 4 * len(list(folder.glob("*.msgpack")))
        commands = {"report": [CACHETRACE, "report", str(folder)], "read": [*TRACES, "read", str(folder)]}
        costs: dict[str, list[Spent]] = {name: [] for name in commands}

        def measure(name: str) -> float:
            costs[name].append(spent(commands[name], environment))
            return costs[name][-1].wall_s

        found = in_turns(effort, {name: (lambda name=name: measure(name)) for name in commands})
    report, reading = costs["report"][1:], costs["read"][1:]  # without the warm-up
    what = f"report over {arms:,} arms of 10 requests of 100 tokens"
    full = arms == 3200
    yield against(
        what,
        "s",
        found["report"],
        READ_BYTES,
        found["read"],
        target=f"under {LIMIT_S:.0f} s" if full else "",
        at_most=LIMIT_S if full else None,
    )
    yield against(
        f"{what}, processor time",
        "s",
        [cost.processor_s for cost in report],
        READ_BYTES,
        [cost.processor_s for cost in reading],
    )
    yield against(
        f"{what}, memory",
        "MB",
        [cost.peak_mb for cost in report],
        READ_BYTES,
        [cost.peak_mb for cost in reading],
        target=f"under {LIMIT_MB:.0f} MB" if full else "",
        at_most=LIMIT_MB if full else None,
    )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the traces here, or use those there")


if __name__ == "__main__":
    run(rows, "report over the paper's grid", __doc__, options)
