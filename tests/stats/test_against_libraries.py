"""Our statistics beside statsmodels, arch and scipy on 1,000 random data sets each.

The first data sets are the awkward ones: empty, all zero, all one, a single value.
"""

import math
import warnings
from itertools import combinations, product

import numpy as np
import pytest

from stats.bootstrap import block_bootstrap, politis_white_block, read_limits, resampled_means
from stats.conditional_logistic import conditional_logistic
from stats.intervals import exact_binomial, normal_two_sided_p, student_t_quantile, wilson, zero_event_upper
from stats.orders import between_orders, mann_whitney_exact, two_way_bootstrap
from stats.paired import mcnemar_exact, mcnemar_power, paired_difference, smallest_detectable_shift
from stats.position_test import position_test, slope_along_run
from stats.random_intercept import random_intercept_logistic
from stats.trend import cochran_armitage, within_episode_permutation

SETS = 1000
Z = 1.959963984540054


def counts(seed: int) -> list[tuple[int, int]]:
    """(k, n) pairs: the awkward ones first, then random ones."""
    random = np.random.default_rng(seed)
    awkward = [(0, 0), (0, 1), (1, 1), (0, 80), (80, 80), (1, 80)]
    sizes = random.integers(1, 400, SETS - len(awkward))
    return awkward + [(int(random.integers(0, n + 1)), int(n)) for n in sizes]


def test_wilson_and_exact_binomial_beside_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for k, n in counts(1):
        if n == 0:
            assert wilson(k, n) is None
            assert exact_binomial(k, n) is None
            assert zero_event_upper(n) is None
            continue
        for ours, method in ((wilson(k, n, Z), "wilson"), (exact_binomial(k, n), "beta")):
            low, high = proportion_confint(k, n, method=method)
            # At k = 0 and k = n the library answers NaN for the side that has no limit.
            expected = (0.0 if k == 0 else low, 1.0 if k == n else high)
            assert ours is not None
            assert (ours.low, ours.high) == pytest.approx(expected, abs=1e-9)


def test_counts_that_are_none_are_refused() -> None:
    for k, n in ((-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="no count"):
            wilson(k, n)


def test_mcnemar_beside_statsmodels() -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    random = np.random.default_rng(2)
    for b, c in [(0, 0), (1, 0), (0, 1), (500, 3), *random.integers(0, 40, (SETS - 4, 2)).tolist()]:
        if b + c == 0:
            assert mcnemar_exact(b, c) == 1.0
            continue
        assert mcnemar_exact(b, c) == pytest.approx(mcnemar([[5, b], [c, 5]], exact=True).pvalue, abs=1e-12)


def test_trend_beside_statsmodels_which_divides_by_n_minus_1() -> None:
    from statsmodels.stats.contingency_tables import Table

    random = np.random.default_rng(3)
    assert cochran_armitage([], [], []) is None
    for _ in range(SETS):
        formats = int(random.integers(2, 6))
        totals = random.integers(1, 90, formats)
        events = np.array([random.integers(0, n + 1) for n in totals])
        ours = cochran_armitage(events, totals, np.arange(formats), divisor="N-1")
        if events.sum() in (0, totals.sum()):
            assert ours is None
            continue
        table = np.column_stack([totals - events, events])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = Table(table, shift_zeros=False).test_ordinal_association(
                row_scores=np.arange(formats), col_scores=np.array([0, 1])
            )
        assert ours is not None
        assert ours.z == pytest.approx(theirs.zscore, abs=1e-9)
        assert ours.p == pytest.approx(theirs.pvalue, abs=1e-9)


def binary_series(seed: int) -> list[np.ndarray]:
    """0/1 and real series with and without memory, 3 to 120 long."""
    random = np.random.default_rng(seed)
    found = []
    for index in range(SETS):
        n = int(random.integers(8, 120))
        walk = np.cumsum(random.normal(size=n)) if index % 3 == 0 else random.normal(size=n)
        found.append(
            walk if index % 5 == 0 else (walk > np.quantile(walk, random.uniform(0.1, 0.9))).astype(float)
        )
    return found


def test_block_length_of_awkward_series() -> None:
    for awkward in ([], [1], [0, 1], np.zeros(80), np.ones(80)):
        assert politis_white_block(awkward) is None


@pytest.mark.parametrize(
    "chosen", [slice(0, 100), pytest.param(slice(100, SETS), marks=pytest.mark.slow)], ids=["first", "rest"]
)
def test_block_length_beside_arch(chosen: slice) -> None:
    from arch.bootstrap import optimal_block_length

    for x in binary_series(4)[chosen]:
        ours = politis_white_block(x)
        with warnings.catch_warnings():
            # A run of equal values at one end divides 0 by 0 over there.
            warnings.simplefilter("ignore")
            theirs = float(optimal_block_length(x)["circular"].iloc[0])
        if math.isnan(theirs):
            continue
        assert ours == pytest.approx(theirs, abs=1e-8)


@pytest.mark.parametrize("kind", ["circular", "moving"])
def test_block_means_beside_an_obvious_loop(kind: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(40):
        x = random.normal(size=int(random.integers(1, 30)))
        n = len(x)
        length = int(random.integers(1, n + 1))
        found = resampled_means(x, length, kind=kind, resamples=20, seed=9)  # type: ignore[arg-type]
        blocks = -(-n // length)
        starts = np.random.default_rng(9).integers(
            0, n if kind == "circular" else n - length + 1, size=(20, blocks)
        )
        for row, mean in zip(starts, found, strict=True):
            slow = np.concatenate([[x[(s + i) % n] for i in range(length)] for s in row])[:n].mean()
            assert mean == pytest.approx(slow, abs=1e-12)


def test_circular_bootstrap_beside_arch_in_distribution() -> None:
    """Two random streams: the standard errors agree within what 4,000 resamples allow."""
    from arch.bootstrap import CircularBlockBootstrap

    x = (np.random.default_rng(6).normal(size=80) > 0.4).astype(float)
    ours = block_bootstrap(x, 6, resamples=4000)
    theirs = CircularBlockBootstrap(6, x, seed=1).apply(np.mean, 4000).std(ddof=1)
    assert ours is not None
    assert ours.standard_error == pytest.approx(theirs, rel=0.06)


def test_awkward_series_have_no_bootstrap_interval() -> None:
    assert block_bootstrap([]) is None
    for x in ([1], np.zeros(80), np.ones(80)):
        found = block_bootstrap(x)
        assert found is not None
        assert found.interval is None
        assert found.resamples == 0
    with pytest.raises(ValueError, match="does not fit"):
        resampled_means([0, 1], 3)


def test_limits_by_sorted_index_are_the_values_at_250_and_9750() -> None:
    means = np.random.default_rng(7).permutation(10_000).astype(float)
    assert read_limits(means, "sorted") == (250.0, 9750.0)
    assert read_limits(means, "quantile") == pytest.approx((249.975, 9749.025))


def test_normal_and_t_tails_beside_scipy() -> None:
    from scipy import stats

    for z in np.random.default_rng(8).normal(scale=4, size=SETS):
        assert normal_two_sided_p(z) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-12)
    for degrees in range(1, 60):
        assert student_t_quantile(0.95, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-12)


def test_t_interval_beside_scipy() -> None:
    from scipy import stats

    assert between_orders([]) is None
    alone = between_orders([0.5])
    assert alone is not None
    assert alone.interval is None
    random = np.random.default_rng(9)
    for _ in range(200):
        rates = random.uniform(size=int(random.integers(2, 12)))
        found = between_orders(rates.tolist())
        expected = stats.t.interval(0.95, len(rates) - 1, rates.mean(), stats.sem(rates))
        assert found is not None
        assert found.interval is not None
        assert (found.interval.low, found.interval.high) == pytest.approx(expected)


def test_permutation_beside_every_rearrangement() -> None:
    """Exact null distribution against listing all of them."""
    random = np.random.default_rng(10)
    assert within_episode_permutation(np.empty((0, 3)), [0, 1, 2]) is None
    for _ in range(60):
        scores = [0, 1, 3][: int(random.integers(2, 4))]
        x = random.uniform(size=(int(random.integers(1, 5)), len(scores))) < 0.5
        per_episode = [[sum(chosen) for chosen in combinations(scores, int(row.sum()))] for row in x]
        sums = np.array([sum(picked) for picked in product(*per_episode)])
        t, mean = float((x @ scores).sum()), sums.mean()
        found = within_episode_permutation(x, scores)
        assert found is not None
        assert found.statistic == t
        assert found.null_mean == pytest.approx(mean)
        assert found.p_two_sided == pytest.approx(np.mean(np.abs(sums - mean) >= abs(t - mean) - 1e-9))
        one = np.mean(sums >= t - 1e-9) if t >= mean else np.mean(sums <= t + 1e-9)
        assert found.p_one_sided == pytest.approx(one)


def test_conditional_logistic_beside_statsmodels() -> None:
    from statsmodels.discrete.conditional_models import ConditionalLogit

    random = np.random.default_rng(11)
    compared = 0
    for _ in range(60):
        x = random.uniform(size=(30, 4)) < np.array([0.3, 0.4, 0.5, 0.7])
        ours = conditional_logistic(x, [0, 1, 2, 3])
        if ours is None:
            continue
        mixed = x[(x.sum(axis=1) > 0) & (x.sum(axis=1) < 4)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ConditionalLogit(
                mixed.astype(int).ravel(),
                np.tile([0.0, 1, 2, 3], len(mixed)),
                groups=np.repeat(np.arange(len(mixed)), 4),
            )
            fit = model.fit(disp=False, gtol=1e-8)
        # Its optimiser stops up to 1e-4 short, so ours must be at least as likely under its own model.
        assert model.loglike(np.array([ours.beta])) >= fit.llf - 1e-9
        assert ours.beta == pytest.approx(float(fit.params[0]), abs=1e-3)
        assert ours.standard_error == pytest.approx(float(fit.bse[0]), rel=1e-3)
        compared += 1
    assert compared > 50


def test_conditional_logistic_without_information_or_end() -> None:
    assert conditional_logistic(np.zeros((5, 3)), [0, 1, 2]) is None
    assert conditional_logistic(np.ones((5, 3)), [0, 1, 2]) is None
    assert conditional_logistic(np.tile([0, 0, 1], (5, 1)), [0, 1, 2]) is None


def test_small_and_separated_data_never_break_the_models() -> None:
    """Estimates that run away are None, and every number that is given is finite."""
    random = np.random.default_rng(15)
    given = 0
    for _ in range(60):
        formats = int(random.integers(2, 5))
        x = random.uniform(size=(int(random.integers(1, 7)), formats)) < random.uniform(0, 1, formats)
        fixed, mixed = (
            conditional_logistic(x, np.arange(formats)),
            random_intercept_logistic(x, np.arange(formats), nodes=30),
        )
        for found in (fixed, mixed):
            if found is not None:
                given += 1
                assert np.isfinite([found.odds_ratio, found.odds_ratio_interval.high]).all()
    assert given > 20
    perfect = np.tile([False, True], (30, 1))
    assert random_intercept_logistic(perfect, [0, 1]) is None


def test_mann_whitney_needs_two_groups() -> None:
    assert mann_whitney_exact([], [1.0]) is None


def test_paired_difference_of_newcombe_and_its_coverage() -> None:
    """Newcombe (1998) prints 0.0562 to 0.3292 for 20, 12, 2, 16; and it covers near 95 %."""
    printed = paired_difference(20, 12, 2, 16)
    assert printed is not None
    assert (round(printed.interval.low, 4), round(printed.interval.high, 4)) == (0.0562, 0.3292)
    assert paired_difference(0, 0, 0, 0) is None
    for extreme in ((5, 0, 0, 0), (0, 5, 0, 0), (0, 0, 5, 0), (0, 0, 0, 1)):
        found = paired_difference(*extreme)
        assert found is not None
        assert -1 <= found.interval.low <= found.difference <= found.interval.high <= 1
    tables = np.random.default_rng(12).multinomial(80, [0.4, 0.3, 0.1, 0.2], SETS)
    intervals = [paired_difference(*(int(v) for v in table)) for table in tables]
    covered = np.mean([i is not None and i.interval.low <= 0.2 <= i.interval.high for i in intervals])
    assert 0.93 <= covered <= 0.98


def test_power_beside_simulation_and_its_ends() -> None:
    assert mcnemar_power(100, 0.0, 0.01) == 0.0
    assert mcnemar_power(0, 0.1, 0.01) == 0.0
    random = np.random.default_rng(13)
    d, shift, n = 0.2, 0.12, 100
    draws = random.multinomial(n, [(d + shift) / 2, (d - shift) / 2, 1 - d], 4000)
    simulated = np.mean([mcnemar_exact(int(b), int(c)) < 0.05 for b, c, _ in draws])
    assert mcnemar_power(n, d, shift) == pytest.approx(simulated, abs=0.025)
    found = smallest_detectable_shift(1300, 20 / 1300)
    assert found is not None
    assert mcnemar_power(1300, 20 / 1300, found) == pytest.approx(0.8, abs=1e-6)
    assert smallest_detectable_shift(10, 0.01) is None


def test_position_and_slope_see_a_change_along_the_run() -> None:
    falling = [1] * 20 + [0] * 60
    found = position_test(falling, permutations=2000)
    assert found is not None
    assert found.p == pytest.approx(1 / 2001)
    slope = slope_along_run(falling)
    assert slope is not None
    assert slope == pytest.approx(np.polyfit(np.arange(80), falling, 1)[0])
    assert position_test([]) is None
    assert slope_along_run([1.0]) is None
    constant = position_test(np.ones(5), permutations=100)
    assert constant is not None
    assert constant.p == 1.0


def test_two_way_bootstrap_beside_an_obvious_loop() -> None:
    x = np.random.default_rng(14).uniform(size=(5, 40)) < 0.4
    found = two_way_bootstrap(x, resamples=500, seed=3)
    random = np.random.default_rng(3)
    rows, columns = random.integers(0, 5, (500, 5)), random.integers(0, 40, (500, 40))
    slow = [x[np.ix_(r, c)].mean() for r, c in zip(rows, columns, strict=True)]
    assert found is not None
    assert (found.low, found.high) == pytest.approx(np.quantile(slow, [0.025, 0.975]))
    assert two_way_bootstrap(np.empty((0, 0))) is None
