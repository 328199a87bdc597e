"""Numbers that the paper's authors released, reproduced to the digits they gave.

Numbering: the table of known answers that comes with the released results of "Same Request,
Different Answer" (A. Patodiya, arXiv 2609.04748; data CC BY 4.0, re-serialised). Short vectors
are written here; whole files are read from beside the repository where they are.
"""

import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from stats.bootstrap import block_bootstrap, october_block_length, politis_white_block, rate_interval
from stats.clustered import problem_bootstrap, sign_test_by_problem
from stats.conditional_logistic import conditional_logistic
from stats.intervals import Z95, Z95_AUGUST, wilson, zero_event_upper
from stats.orders import between_orders, mann_whitney_exact
from stats.paired import discordant_rate, mcnemar_exact, mcnemar_power
from stats.position_test import position_test, quartile_counts
from stats.random_intercept import random_intercept_logistic
from stats.trend import cochran_armitage, slope_per_step, within_episode_permutation

# divergence.csv, comparisons B6_order1_rerun … B6_order5_rerun, by position in the run.
PRODUCTION_ORDERS = (
    "11100001010100111011010001001101000000010000000100000001001101000000100000000000",
    "11011010000011100001010100100010010000000001000000010100000000000001001000000001",
    "11101000110101101011101010000000101000001010000000000000010000000000000000000000",
    "11101010011000100100010000000010010010000000000000101000100000000000000000000000",
    "01110010101011101011010000000010100000000000010000100000000010000000000000000001",
)
# revision_findings.json, trend_grid_production_default.patterns and trend_controlled_existing.patterns.
FOUR_FORMATS = {
    "0000": 6, "0001": 4, "0010": 4, "0011": 11, "0100": 2, "0101": 3, "0110": 1, "0111": 20,
    "1000": 1, "1001": 2, "1011": 3, "1100": 1, "1101": 1, "1110": 3, "1111": 18,
}  # fmt: skip
CONTROLLED = {"000": 6, "001": 7, "010": 3, "011": 32, "100": 1, "101": 1, "110": 8, "111": 22}


def series(text: str) -> np.ndarray:
    return np.array([int(character) for character in text])


def matrix(patterns: dict[str, int]) -> np.ndarray:
    return np.array(
        [[c == "1" for c in pattern] for pattern, times in patterns.items() for _ in range(times)]
    )


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (29, 80, 0.2657, 0.4719), (49, 80, 0.5029, 0.7118), (60, 80, 0.6452, 0.8319),
        (62, 80, 0.6721, 0.8527), (44, 80, 0.4412, 0.6542), (56, 80, 0.5923, 0.7894),
        (55, 80, 0.5793, 0.7785), (73, 80, 0.8302, 0.957), (43, 80, 0.429, 0.6425),
        (50, 80, 0.5155, 0.7231), (0, 80, 0.0, 0.0458), (1, 80, 0.0022, 0.0675), (40, 40, 0.9124, 1.0),
        (7, 200, 0.0171, 0.0705), (83, 200, 0.3489, 0.4843), (89, 200, 0.3778, 0.5143),
        (96, 200, 0.4118, 0.549), (227, 500, 0.4109, 0.4978),
    ],
)  # fmt: skip
def test_wilson_as_the_august_tables_print_it(k: int, n: int, low: float, high: float) -> None:
    """Known answers 1 to 5 and 9."""
    found = wilson(k, n, Z95_AUGUST, digits=4)
    assert found is not None
    assert (found.low, found.high) == (low, high)


def test_no_event_in_800_and_in_80() -> None:
    """Known answers 6, 7 and 8."""
    of_800 = wilson(0, 800, Z95_AUGUST)
    assert of_800 is not None
    assert round(of_800.high, 5) == 0.00478
    assert zero_event_upper(80) == pytest.approx(0.036754197779982345, abs=1e-15)
    of_80 = wilson(0, 80, Z95)
    assert of_80 is not None
    assert of_80.high == pytest.approx(0.04581813022522419, abs=1e-15)


def test_cochran_armitage_with_n_and_with_n_minus_1() -> None:
    """Known answers 10, 11 and 12."""
    events, totals, scores = [29, 49, 60, 62], [80] * 4, [0, 1, 2, 3]
    paper = cochran_armitage(events, totals, scores)
    assert paper is not None
    assert round(paper.z, 9) == 5.680375574
    assert paper.p == pytest.approx(1.3439929353717245e-08, rel=1e-12)
    other = cochran_armitage(events, totals, scores, divisor="N-1")
    assert other is not None
    assert round(other.z, 9) == 5.671493043
    continued = cochran_armitage(events, totals, scores, continuity=0.5)
    assert continued is not None
    assert round(continued.z, 6) == 5.628736
    controlled = cochran_armitage([32, 65, 62], [80] * 3, [0, 2, 3])
    assert controlled is not None
    assert round(controlled.z, 6) == 5.582027


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        (9, 3, 0.14599609375), (1, 3, 0.625), (2, 1, 1.0), (1, 0, 1.0), (0, 0, 1.0), (2, 2, 1.0),
        (13, 7, 0.26317596435546875), (15, 9, 0.30745625495910645), (6, 3, 0.5078125),
        (12, 5, 0.143463134765625),
    ],
)  # fmt: skip
def test_mcnemar(b: int, c: int, p: float) -> None:
    """Known answers 13 to 17, and the count without one-sided missing answers (p = 0.143)."""
    assert mcnemar_exact(b, c) == p
    assert mcnemar_exact(c, b) == p


def test_exact_power_beside_the_published_simulation() -> None:
    """Known answers 18 to 20: the simulation of 4,000 runs lies within its own error of the exact power."""
    rate = discordant_rate(13, 7, 1300)
    assert rate is not None
    assert round(rate, 4) == 0.0154
    exact = [mcnemar_power(1300, rate, points / 100) for points in (0.5, 0.8, 1.0, 1.5, 2.0)]
    assert [round(p, 5) for p in exact] == [0.23331, 0.58164, 0.81256, 0.99958, 0.99993]
    for simulated, power in zip((0.22375, 0.5725, 0.8085, 0.9995, 0.99975), exact, strict=True):
        assert abs(simulated - power) < 3 * max((power * (1 - power) / 4000) ** 0.5, 1e-4)


@pytest.mark.parametrize(
    ("order", "k", "quartiles", "block", "optimal", "low", "high", "p"),
    [
        (0, 23, (11, 6, 4, 2), 5, 0.817, 0.175, 0.4, 0.002999850007499625),
        (1, 20, (9, 5, 3, 3), 5, 0.924, 0.15, 0.3625, 0.013949302534873257),
        (2, 20, (12, 5, 3, 0), 7, 6.611, 0.125, 0.3875, 9.99950002499875e-05),
        (3, 16, (9, 4, 3, 0), 5, 0.168, 0.1125, 0.3004624381576884, 0.0004999750012499375),
        (4, 19, (12, 3, 2, 2), 7, 6.488, 0.1125, 0.375, 0.0002999850007499625),
    ],
)
def test_the_five_production_orders(
    order: int,
    k: int,
    quartiles: tuple[int, ...],
    block: int,
    optimal: float,
    low: float,
    high: float,
    p: float,
) -> None:
    """Known answers 25 to 30."""
    x = series(PRODUCTION_ORDERS[order])
    assert x.sum() == k
    assert len(x) == 80
    assert quartile_counts(x) == quartiles
    found = politis_white_block(x)
    assert found is not None
    assert round(found, 3) == optimal
    assert october_block_length(x) == block
    reported = rate_interval(x)
    assert reported is not None
    assert (reported.low, reported.high) == (pytest.approx(low, abs=1e-15), pytest.approx(high, abs=1e-15))
    tested = position_test(x)
    assert tested is not None
    assert tested.p == p


def test_blocks_alone_are_narrower_than_wilson_in_order_4() -> None:
    """Known answer 28: the limit that is reported there is Wilson's."""
    blocks = block_bootstrap(series(PRODUCTION_ORDERS[3]))
    assert blocks is not None
    assert blocks.interval is not None
    assert (blocks.interval.low, blocks.interval.high) == (pytest.approx(0.1125), pytest.approx(0.3))


def test_between_the_five_orders() -> None:
    """Known answer 31."""
    found = between_orders([series(order).mean() for order in PRODUCTION_ORDERS])
    assert found is not None
    assert found.mean == pytest.approx(0.245, abs=1e-12)
    assert found.standard_deviation is not None
    assert round(found.standard_deviation, 12) == 0.031374750995
    assert found.interval is not None
    assert (round(found.interval.low, 6), round(found.interval.high, 6)) == (0.206043, 0.283957)


def test_exact_permutation_within_episodes() -> None:
    """Known answers 32 and 33."""
    four = within_episode_permutation(matrix(FOUR_FORMATS), [0, 1, 2, 3])
    assert four is not None
    assert (four.statistic, four.null_mean) == (355, 300)
    assert four.p_one_sided == pytest.approx(6.692320008e-11, rel=1e-9)
    assert four.p_two_sided == pytest.approx(1.338464002e-10, rel=1e-9)
    three = within_episode_permutation(matrix(CONTROLLED), [0, 2, 3])
    assert three is not None
    assert (three.statistic, three.null_mean) == (316, 265)
    assert three.p_one_sided == pytest.approx(6.869396388e-09, rel=1e-9)
    assert three.p_two_sided == pytest.approx(7.459223772e-09, rel=1e-9)


def test_conditional_logistic() -> None:
    """Known answers 34 and 36. The published optimum stops 2e-8 short of the root of the score function."""
    four = conditional_logistic(matrix(FOUR_FORMATS), [0, 1, 2, 3])
    assert four is not None
    assert four.beta == pytest.approx(0.84004371, abs=3e-8)
    assert round(four.standard_error, 8) == 0.14694963
    assert (four.informative, four.dropped) == (56, 24)
    three = conditional_logistic(matrix(CONTROLLED), [0, 2, 3])
    assert three is not None
    assert three.beta == pytest.approx(0.69340349, abs=3e-8)
    assert round(three.standard_error, 8) == 0.13539197
    assert (three.informative, three.dropped) == (52, 28)


def test_random_intercept_logistic() -> None:
    """Known answers 35 and 36."""
    four = random_intercept_logistic(matrix(FOUR_FORMATS), [0, 1, 2, 3])
    assert four is not None
    assert (round(four.b0, 6), round(four.b1, 6), round(four.sigma, 6)) == (-0.498692, 0.837365, 1.372764)
    assert (round(four.log_likelihood, 6), round(four.likelihood_ratio, 6)) == (-184.721188, 42.179457)
    assert four.odds_ratio == pytest.approx(2.3102702808, rel=1e-7)
    assert four.standard_error_b1 == pytest.approx(0.146513543, rel=1e-6)
    three = random_intercept_logistic(matrix(CONTROLLED), [0, 2, 3])
    assert three is not None
    assert (round(three.b1, 6), round(three.sigma, 6)) == (0.720949, 0.850844)
    assert round(three.likelihood_ratio, 6) == 33.956716


def test_slope_of_rates_per_format_step() -> None:
    """Known answer 37."""
    assert slope_per_step([0.3625, 0.6125, 0.75, 0.775], [0, 1, 2, 3]) == pytest.approx(0.1375, abs=1e-12)
    assert slope_per_step([0.4, 0.8125, 0.775], [0, 2, 3]) == pytest.approx(0.13660714, abs=5e-9)
    assert slope_per_step([0.37375, 0.595, 0.825, 0.77125], [0, 1, 2, 3]) == pytest.approx(0.14225, abs=1e-12)


def test_ordering_by_mann_whitney() -> None:
    """Known answer 57."""
    assert mann_whitney_exact([16, 44, 62, 54, 27, 48, 50], [25, 8, 7]) == pytest.approx(1 / 30, abs=1e-12)


def test_ten_random_orders(paper_data: Path) -> None:
    """Known answers 38 to 41, from phaseb_findings.json and phaseb_or_bootstrap.json."""
    sweep = json.loads((paper_data / "phaseb_findings.json").read_text())["sweep"]["rate_by_history"]
    rates = {
        name: [sweep[name][str(i)] for i in range(1, 11)] for name in ("F16", "Q8_0", "Q4_K_M", "Q3_K_M")
    }
    between = {name: between_orders(values) for name, values in rates.items()}
    means = [found.mean for found in between.values() if found is not None]
    assert means == pytest.approx([0.37375, 0.595, 0.825, 0.77125], abs=1e-12)
    f16 = between["F16"]
    assert f16 is not None
    assert f16.standard_deviation == pytest.approx(0.018114220932737, abs=5e-16)
    assert f16.interval is not None
    assert (round(f16.interval.low, 9), round(f16.interval.high, 9)) == (0.360791867, 0.386708133)
    counts = [round(sum(values) * 80) for values in rates.values()]
    assert sum(score * count for score, count in enumerate(counts)) == 3647
    assert sum(counts) * 1.5 == 3078
    published = json.loads((paper_data / "phaseb_or_bootstrap.json").read_text())
    assert np.exp(published["b1_mean_over_histories"]) == pytest.approx(2.301355859, abs=5e-10)


def test_gsm8k_by_problem(paper_data: Path) -> None:
    """Known answers 15, 18 and 21 to 24, from bridge_items.csv."""
    with (paper_data / "bridge_items.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    warm_wins = [(row["warm_correct"] == "true") - (row["cold_correct"] == "true") for row in rows]
    problems = [int(row["item_idx"]) for row in rows]
    found = problem_bootstrap(problems, [row["config"] for row in rows], warm_wins)
    assert found is not None
    assert (found.items, found.problems) == (1300, 500)
    assert found.mean == pytest.approx(0.004615384615384616, abs=1e-16)
    assert (round(found.interval.low, 10), round(found.interval.high, 10)) == (-0.0015384615, 0.0115384615)
    assert found.standard_error == pytest.approx(0.003394417431326629, abs=1e-17)
    assert found.naive_standard_error == pytest.approx(0.003439045109052753, abs=1e-17)
    signs = sign_test_by_problem(problems, warm_wins)
    assert (signs.positive + signs.negative, signs.most_on_one_problem) == (20, 1)
    assert signs.p == 0.26317596435546875


def test_reset_control_and_bridge_differ_on_the_same_items(paper_data: Path) -> None:
    """Known answer 50, from reset_lcpp_summary.json and bridge_items.csv."""
    items = json.loads((paper_data / "reset_lcpp_summary.json").read_text())
    assert len(items) == 40
    assert all(item["cold_reproducible"] and item["warm_reproducible"] for item in items)
    differing = [item["item_idx"] for item in items if item["cache_effect"]]
    assert differing == [0, 2, 5, 12, 15, 17, 21, 25, 30, 31, 32, 34, 35, 39]
    with (paper_data / "bridge_items.csv").open(newline="") as lines:
        bridge = [r for r in csv.DictReader(lines) if r["config"] == "bridge-qwen7b-q4km-n500"]
    assert [int(r["item_idx"]) for r in bridge[:40] if r["texts_identical"] == "false"] == differing


def test_every_production_order_is_the_released_series(paper_data: Path) -> None:
    """The vectors written above are those of divergence.csv."""
    released: dict[str, list[tuple[int, str]]] = defaultdict(list)
    with (paper_data / "divergence.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            released[row["comparison"]].append((int(row["position"]), row["diverged"]))
    for number, written in enumerate(PRODUCTION_ORDERS, start=1):
        assert "".join(x for _, x in sorted(released[f"B6_order{number}_rerun"])) == written


def test_all_43_released_cells(paper_data: Path) -> None:
    """Wilson limits and hulls of every cell in revision_findings.json."""
    cells = json.loads((paper_data / "revision_findings.json").read_text())["cells"]
    assert len(cells) == 43
    for name, cell in cells.items():
        found = wilson(cell["k"], cell["n"])
        assert found is not None
        assert [found.low, found.high] == pytest.approx(cell["wilson95"], abs=1e-12), name
        if cell["reported95"] is not None:
            low = min(cell["cbb95"][0], found.low)
            high = max(cell["cbb95"][1], found.high)
            assert [low, high] == pytest.approx(cell["reported95"], abs=1e-12), name
        elif cell["k"] == 0:
            assert zero_event_upper(cell["n"]) == pytest.approx(
                cell["exact_upper95_if_independent"], abs=1e-15
            )
