"""Rates over requests whose interval respects episodes."""

import numpy as np
import pytest

from stats.clustered_rate import clustered_rate
from stats.intervals import wilson


def test_nothing_compared_is_none() -> None:
    assert clustered_rate([], []) is None
    assert clustered_rate([0, 0], [0, 0]) is None


@pytest.mark.parametrize(("events", "episodes"), [(0, 1), (0, 12), (10, 12)])
def test_without_variation_the_limits_are_those_of_episodes(events: int, episodes: int) -> None:
    """120 requests in 12 episodes that all agree are 12 observations, not 120."""
    found = clustered_rate([events] * episodes, [10] * episodes)
    expected = wilson(episodes if events else 0, episodes)
    assert found is not None
    assert expected is not None
    assert (found.interval.low, found.interval.high) == (expected.low, expected.high)


def test_clustering_widens_the_interval() -> None:
    """All flips in a few episodes say less than the same number spread out."""
    spread = clustered_rate([1] * 20 + [0] * 20, [10] * 40)
    lumped = clustered_rate([10] * 2 + [0] * 38, [10] * 40)
    assert spread is not None
    assert lumped is not None
    assert spread.rate == lumped.rate == 0.05
    assert lumped.interval.high - lumped.interval.low > 2 * (spread.interval.high - spread.interval.low)


def test_covers_the_truth_under_clustering() -> None:
    """Each episode has its own rate: the 95 % interval covers the mean rate in about 95 of 100 studies."""
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        rates = random.beta(0.5, 4.5, 60)
        found = clustered_rate(random.binomial(10, rates), np.full(60, 10), resamples=400)
        assert found is not None
        covered += found.interval.low <= 0.1 <= found.interval.high
    assert 0.88 <= covered / 200 <= 0.99
