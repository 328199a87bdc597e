"""10,000 circular-block resamples of 80 episodes: ours beside the ``arch`` package.

    python benchmarks/bootstrap.py [--pairs 30]

Interleaved pairs in one process; medians and the ratio's interval over pairs. Both get the same
0/1 series, block length 5 and percentile limits.
"""

import argparse
import time

import numpy as np
from arch.bootstrap import CircularBlockBootstrap

from stats.bootstrap import block_bootstrap
from stats.medians import median_with_interval

EPISODES, BLOCK, RESAMPLES = 80, 5, 10_000
TARGET = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    series = (np.random.default_rng(1).uniform(size=EPISODES) < 0.4).astype(float)
    block_bootstrap(series, BLOCK, resamples=100)
    ours, theirs = [], []
    for pair in range(pairs):
        start = time.perf_counter()
        block_bootstrap(series, BLOCK, resamples=RESAMPLES)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        resampler = CircularBlockBootstrap(BLOCK, series, seed=pair)
        resampler.conf_int(np.mean, reps=RESAMPLES, method="percentile")
        theirs.append(time.perf_counter() - start)
    ratio = median_with_interval([b / a for a, b in zip(ours, theirs, strict=True)])
    assert ratio is not None
    assert ratio.interval is not None
    print(f"{RESAMPLES} resamples of {EPISODES} episodes, L = {BLOCK}, {pairs} interleaved pairs (medians)")
    print(f"cachetrace  {np.median(ours) * 1000:9.2f} ms")
    print(f"arch        {np.median(theirs) * 1000:9.2f} ms")
    print(f"arch / cachetrace: {ratio.value:.0f} [{ratio.interval.low:.0f}, {ratio.interval.high:.0f}]")
    # Nothing that draws these blocks can be faster than the random numbers themselves.
    start = time.perf_counter()
    np.random.default_rng(1).integers(0, EPISODES, size=(RESAMPLES, -(-EPISODES // BLOCK)))
    print(f"limit: drawing the random starts alone takes {(time.perf_counter() - start) * 1000:.2f} ms")
    if ratio.value < TARGET:
        raise SystemExit(f"below the target of {TARGET:.0f} times")


if __name__ == "__main__":
    main()
