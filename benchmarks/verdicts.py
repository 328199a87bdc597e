"""How long the verdicts of a large trace take, after import, with the alternatives unread.

    python benchmarks/verdicts.py [--tokens 100000] [--runs 5]

Two arms of 500 requests each make up the output tokens together; one request in twenty flips and all
others drift, so nothing is settled by a shortcut. Times are wall seconds: opening the file and
``analyse`` with each level of detail; the best and the median of the runs are printed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from replay.divergence import Detail, analyse
from tests.synthetic import ArmSpec, write_trace
from tracer.tracefile import TraceReader

REQUESTS = 500


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tokens", type=int, default=100_000, help="output tokens of both arms together")
    options.add_argument("--runs", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.msgpack"
        flips = dict.fromkeys(range(0, REQUESTS, 20), 3)
        write_trace(
            path,
            requests=REQUESTS,
            tokens=given.tokens // 2 // REQUESTS,
            prompt_growth=2,
            arms=[ArmSpec(), ArmSpec(state="warm", drift=1e-2, flips=flips)],
        )
        for detail in Detail:
            seconds = [_once(path, detail) for _ in range(given.runs)]
            print(
                f"{given.tokens} tokens, {path.stat().st_size / 1e6:.1f} MB, detail {detail}: "
                f"best {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s"
            )


def _once(path: Path, detail: Detail) -> float:
    started = time.perf_counter()
    with TraceReader.open(path) as trace:
        analyse(trace, detail=detail)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
