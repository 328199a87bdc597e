"""10,000 circular-block resamples of 80 episodes: ours beside the ``arch`` package and beside numpy.

    python -m benchmarks.bootstrap [--pairs 30]

All get the same 0/1 series and block length 5; ours and ``arch`` compute percentile limits of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from benchmarks.command import Given, run
from benchmarks.rows import Row, against, missing
from benchmarks.turns import Effort, in_turns, seconds
from stats.bootstrap import block_bootstrap

EPISODES, BLOCK, RESAMPLES = 80, 5, 10_000
TIMES_FASTER = 20
WHAT = f"block bootstrap, {RESAMPLES:,} resamples of {EPISODES} episodes"


def rows(_: Given, effort: Effort) -> Iterator[Row]:
    series = (np.random.default_rng(1).uniform(size=EPISODES) < 0.4).astype(float)
    blocks = -(-EPISODES // BLOCK)
    seeds = count()

    def drawing() -> None:
        """Nothing that resamples these blocks is faster than their random starts and one sum over them."""
        starts = np.random.default_rng(1).integers(0, EPISODES, size=(RESAMPLES, blocks))
        starts.sum(axis=1)

    sides = {
        "ours": seconds(lambda: block_bootstrap(series, BLOCK, resamples=RESAMPLES)),
        "drawing": seconds(drawing),
    }
    try:
        from arch.bootstrap import CircularBlockBootstrap
    except ImportError:
        yield missing(f"{WHAT}, arch", "the package arch is not installed")
    else:

        def arch() -> None:
            resampler = CircularBlockBootstrap(BLOCK, series, seed=next(seeds))
            resampler.conf_int(np.mean, reps=RESAMPLES, method="percentile")

        sides["arch"] = seconds(arch)
    found = in_turns(effort, sides)
    limit = "numpy: drawing the random starts and summing them"
    yield against(WHAT, "ms", found["ours"], limit, found["drawing"], scale=1000)
    if "arch" in found:
        yield against(
            f"{WHAT}, arch",
            "ms",
            found["ours"],
            "no limit: the package arch, same series",
            found["arch"],
            scale=1000,
            target=f"at most 1/{TIMES_FASTER} of arch",
            ratio_at_most=1 / TIMES_FASTER,
        )


if __name__ == "__main__":
    run(rows, WHAT, __doc__)
