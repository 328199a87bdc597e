"""How long the verdicts of a large trace take, after import.

    python -m benchmarks.verdicts [--tokens 100000] [--pairs 30]

Two arms of 500 requests each make up the output tokens together; one request in twenty flips and all
others drift, so nothing is settled by a shortcut. Ours opens the file and analyses it, once with the
top-k lists unread (what a report over many files does) and once with all of them read.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.command import Given, run
from benchmarks.rows import Row, against
from benchmarks.traces_child import DRIFT
from benchmarks.turns import Effort, in_turns, seconds
from replay.divergence import Detail, analyse
from tests.synthetic import ArmSpec, write_trace
from tracer.tracefile import TraceReader

REQUESTS = 500
LIMIT_S = 0.2
PATH = ("token_ids", "chosen_values", "log_sum_exp", "fingerprints")
LISTS = ("ids", "values")


def rows(given: Given, effort: Effort) -> Iterator[Row]:
    tokens = 10_000 if effort.quick else given.tokens
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.msgpack"
        flips = dict.fromkeys(range(0, REQUESTS, 20), 3)
        write_trace(
            file,
            requests=REQUESTS,
            tokens=tokens // 2 // REQUESTS,
            prompt_growth=2,
            arms=[ArmSpec(), ArmSpec(state="warm", drift=DRIFT, flips=flips)],
        )
        path, lists = columns(file)
        found = in_turns(
            effort,
            {
                "path": seconds(lambda: judged(file, Detail.PATH)),
                "lists": seconds(lambda: judged(file, Detail.ALTERNATIVES)),
                "compare path": seconds(lambda: compared(path)),
                "compare lists": seconds(lambda: compared(path + lists)),
            },
        )
    what = f"open and judge {tokens:,} tokens"
    limit = "numpy: comparing the same columns once, in memory"
    yield against(
        f"{what}, top-k unread",
        "ms",
        found["path"],
        limit,
        found["compare path"],
        scale=1000,
        target=f"at most {LIMIT_S * 1000:.0f} ms",
        at_most=LIMIT_S * 1000,
    )
    yield against(f"{what}, top-k read", "ms", found["lists"], limit, found["compare lists"], scale=1000)


def judged(file: Path, detail: Detail) -> None:
    with TraceReader.open(file) as trace:
        analyse(trace, detail=detail)


Pair = tuple[np.ndarray, np.ndarray]


def columns(file: Path) -> tuple[list[Pair], list[Pair]]:
    """Every column of both arms, each as one array: of the paths, and of the lists."""
    with TraceReader.open(file) as trace:
        paths = [[trace.path(arm, i) for i in range(REQUESTS)] for arm in (0, 1)]
        lists = [[trace.alternatives(arm, i) for i in range(REQUESTS)] for arm in (0, 1)]

    def joined(read: list[list[object]], names: tuple[str, ...]) -> list[Pair]:
        first, second = (
            [np.concatenate([getattr(one, name) for one in arm]) for name in names] for arm in read
        )
        return list(zip(first, second, strict=True))

    return joined(paths, PATH), joined(lists, LISTS)


def compared(pairs: list[Pair]) -> None:
    for one, other in pairs:
        np.count_nonzero(one != other)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokens", type=int, default=100_000, help="output tokens of both arms together")


if __name__ == "__main__":
    run(rows, "verdicts of a large trace", __doc__, options)
