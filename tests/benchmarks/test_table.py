"""The common half of the benchmarks: intervals, pairs, turns, and what stands in the table."""

import sys
from importlib.util import find_spec

import pytest
from scipy.stats import binom

from benchmarks import __main__ as everything
from benchmarks.rows import Row, against, figure, from_json, missing, render, to_json
from benchmarks.turns import Effort, in_turns


@pytest.mark.parametrize("n", [6, 7, 12, 30, 31, 100])
def test_the_interval_is_the_narrowest_pair_of_order_statistics_that_holds_95_percent(n):
    found = figure([float(value) for value in range(n, 0, -1)])
    rank = int(found.low)
    assert found.high == n + 1 - rank
    assert found.value == (n + 1) / 2

    def coverage(rank):
        return 1 - 2 * binom.cdf(rank - 1, n, 0.5)

    assert coverage(rank) >= 0.95 > coverage(rank + 1)


def test_five_values_have_no_95_percent_interval():
    assert figure([1.0, 2, 3, 4, 5]).low is None
    assert figure([1.0, 2, 3, 4, 5]).high is None


def test_the_ratio_is_taken_pair_by_pair():
    row = against("x", "ms", [2.0, 30.0, 12.0], "y", [1.0, 10.0, 12.0], scale=1000)
    assert row.ratio.value == 2.0  # of 2, 3 and 1; the medians alone would say 1.2
    assert (row.ours.value, row.at_limit.value) == (12_000, 10_000)


@pytest.mark.parametrize(
    ("at_most", "ratio_at_most", "missed"), [(9, None, False), (7, None, True), (None, 3, True)]
)
def test_a_target_holds_the_median_or_the_ratio(at_most, ratio_at_most, missed):
    row = against("x", "s", [8.0], "y", [2.0], target="fast", at_most=at_most, ratio_at_most=ratio_at_most)
    assert row.missed is missed
    assert ("fast: missed" in render([row])) is missed


def test_turns_rotate_and_the_warm_up_is_thrown_away():
    calls = []

    def side(name):
        def call():
            calls.append(name)
            return float(len(calls))

        return call

    found = in_turns(Effort(pairs=3), {name: side(name) for name in "abc"})
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"
    assert found == {"a": [4.0, 9.0, 11.0], "b": [5.0, 7.0, 12.0], "c": [6.0, 8.0, 10.0]}


def test_a_spent_budget_ends_a_measurement_but_not_before_there_is_an_interval():
    found = in_turns(Effort(pairs=30, budget_s=0), {"a": lambda: 1.0})
    assert len(found["a"]) == 6
    assert figure(found["a"]).low is not None


def test_what_was_not_measured_says_why_and_has_no_number():
    line = render([missing("capture", "llama-cpp-python is not installed")]).splitlines()[-1]
    assert "not measured: llama-cpp-python is not installed" in line
    assert not any(letter.isdigit() for letter in line)


def test_rows_survive_the_file_between_two_processes():
    rows = [
        against("x | y", "s", [8.0], "z", [2.0], note="n"),
        Row("w", ours=figure([0.0])),
        missing("v", "u"),
    ]
    again = from_json(to_json(rows), "bench")
    assert {row.bench for row in again} == {"bench"}
    assert render(again) == render(rows)


def test_a_failed_benchmark_is_named_and_the_others_run(monkeypatch, capsys):
    monkeypatch.setattr(everything, "BENCHES", ("no_such_benchmark", "bytes_per_token"))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick"])
    with pytest.raises(SystemExit) as ended:
        everything.main()
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "no_such_benchmark" in printed.out
    assert "the benchmark failed with exit code 1" in printed.out
    assert "trace file beside json" in printed.out
    assert "failed: no_such_benchmark" in printed.err


def test_every_named_benchmark_is_there():
    for name in everything.BENCHES:
        assert find_spec(f"benchmarks.{name}") is not None, name
