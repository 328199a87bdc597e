"""Opening, verdicts and the report over 1,000, 10,000 and 100,000 arms, and how they grow.

    python -m benchmarks.arms [--pairs 30] [--most 100000]

Two shapes: many traces of 4 small arms, as a study writes them, and one trace of many arms (the format
holds at most 4,096). Arms are as small as they can be, so that the cost is that of an arm and not of its
tokens. All sizes take turns in every round; large ones end after fewer rounds, as the table says. Every
measurement is a process of its own, and peak memory is that of its largest process.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.children import CACHETRACE, READ_BYTES, ROOT, TRACES, compiled, make, spent
from benchmarks.command import Given, run
from benchmarks.rows import NotMeasured, Row, against, figure
from benchmarks.turns import Effort, progress

MANY, ONE = "traces of 4 arms", "one trace"
LIMITS = {
    "open": "reading the same bytes from the page cache",
    "verdicts": "numpy: comparing the same columns once, in memory",
    "report": READ_BYTES,
}


@dataclass
class Case:
    """One shape and size, and what was measured of it in every round."""

    shape: str
    arms: int
    folder: Path
    found: dict[str, list[float]] = field(default_factory=dict)
    spent_s: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.arms:,} arms, {self.shape}"

    def make(self) -> None:
        make("one" if self.shape == ONE else "traces", self.folder, self.arms)

    def measure(self, environment: dict[str, str]) -> None:
        """One round: opening and verdicts beside their limits in one process, then report and reading."""
        begun = time.monotonic()
        times = subprocess.run(
            [sys.executable, *TRACES, "times", str(self.folder)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
        )
        for name, seconds in json.loads(times.stdout).items():
            self.found.setdefault(name, []).append(seconds)
        sides = {
            "report": [CACHETRACE, "report", str(self.folder)],
            "floor": [*TRACES, "read", str(self.folder)],
        }
        for name, arguments in sides.items():
            cost = spent(arguments, environment)
            self.found.setdefault(name, []).append(cost.wall_s)
            self.found.setdefault(f"{name} MB", []).append(cost.peak_mb)
        self.spent_s += time.monotonic() - begun

    def rows(self) -> Iterator[Row]:
        for name, other in (("open", "read"), ("verdicts", "compare"), ("report", "floor")):
            yield against(f"{name}, {self.name}", "s", self.found[name], LIMITS[name], self.found[other])
        yield against(
            f"report, {self.name}, memory",
            "MB",
            self.found["report MB"],
            LIMITS["report"],
            self.found["floor MB"],
        )


def growth(small: Case, large: Case) -> Iterator[Row]:
    """The exponent of the time in the number of arms: 1 where twice the arms take twice as long."""
    times_larger = math.log(large.arms / small.arms)
    for name in ("open", "verdicts", "report"):
        pairs = list(zip(small.found[name], large.found[name], strict=False))
        exponents = [math.log(late / early) / times_larger for early, late in pairs]
        each = [median(case.found[name]) / case.arms * 1e6 for case in (small, large)]
        yield Row(
            f"{name}, growth from {small.arms:,} to {large.arms:,} arms, {large.shape}",
            "(exponent)",
            figure(exponents),
            "1: in proportion to the arms",
            note=f"{each[0]:.0f} µs an arm becomes {each[1]:.0f} µs",
        )


def rows(given: Given, effort: Effort) -> Iterator[Row]:
    sizes = {MANY: (1_000, 10_000, 100_000), ONE: (1_000, 4_000)}
    if effort.quick:
        sizes = {MANY: (40, 80, 400), ONE: (20, 80)}
    with tempfile.TemporaryDirectory() as scratch, compiled() as environment:
        cases = [
            Case(shape, arms, Path(scratch) / f"{len(shape)}-{arms}")
            for shape, all_sizes in sizes.items()
            for arms in all_sizes
            if arms <= given.most
        ]
        if not cases:
            raise NotMeasured(
                f"the smallest size has {min(map(min, sizes.values())):,} arms; give --most more"
            )
        for case in cases:
            case.make()
        cases[0].measure(environment)  # compiles the modules
        cases[0].found.clear()
        for number in range(effort.pairs):
            for case in cases:
                if number < effort.fewest or case.spent_s < effort.budget_s:
                    case.measure(environment)
            progress(f"{number + 1} of {effort.pairs} rounds")
        progress("")
        for case in cases:
            yield from case.rows()
        for small, large in pairwise(cases):
            if small.shape == large.shape:
                yield from growth(small, large)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--most", type=int, default=100_000, help="leave out sizes above this many arms")


if __name__ == "__main__":
    run(rows, "many arms", __doc__, options)
