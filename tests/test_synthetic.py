"""The synthetic traces keep their promises, since many tests build on them."""

from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import ArmSpec, Truth, write_trace
from tracer.columns import margins
from tracer.tracefile import TraceReader

ARMS = [
    ArmSpec(),
    ArmSpec(),
    ArmSpec(repeat=1),
    ArmSpec(state="warm", drift=1e-3, flips={2: 5}),
    ArmSpec(state="warm", repeat=1, drift=1e-3, flips={2: 5}),
    ArmSpec(state="warm", way="closed-loop", drift=1e-3, flips={1: 7}),
    ArmSpec(state="snapshot", drift=1e-2, length_changes={3: 4}),
]


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return write_trace(tmp_path_factory.mktemp("s") / "t.msgpack", requests=4, tokens=20, arms=ARMS)


def test_flips_are_where_they_were_asked_for(truth: Truth) -> None:
    assert truth.flips == ({}, {}, {}, {2: 5}, {2: 5}, {1: 7}, {3: 4})
    assert truth.margin(0, 2, 5) == pytest.approx(0.01, abs=1e-5)
    assert 0 < truth.margin(3, 2, 5) < 0.01


def test_rows_are_equal_exactly_where_fingerprints_are(truth: Truth) -> None:
    for arm in range(1, len(ARMS)):
        for i in range(4):
            a, b = truth.numbers[0][i], truth.numbers[arm][i]
            n = min(len(a.path), len(b.path))
            same_row = (a.alternatives.values[:n] == b.alternatives.values[:n]).all(axis=1)
            same_row &= (a.alternatives.ids[:n] == b.alternatives.ids[:n]).all(axis=1)
            assert a.path.fingerprints is not None
            assert b.path.fingerprints is not None
            same_print = (a.path.fingerprints[:n] == b.path.fingerprints[:n]).all(axis=1)
            assert not (same_print & ~same_row).any()
            if ARMS[arm].drift == 0 or i == 0:
                assert same_print.all()
            else:
                assert not same_print.any()


def test_repeats_agree_bit_by_bit(truth: Truth) -> None:
    for a, b in zip(truth.numbers[3], truth.numbers[4], strict=True):
        assert a.path.fingerprints is not None
        assert b.path.fingerprints is not None
        assert np.array_equal(a.path.fingerprints, b.path.fingerprints)
        assert np.array_equal(a.alternatives.values, b.alternatives.values)


def test_numbers_are_consistent(truth: Truth) -> None:
    for requests in truth.numbers:
        for one in requests:
            table, path = one.alternatives, one.path
            assert (np.diff(table.values, axis=1) <= 0).all()
            assert np.array_equal(table.ids[:, 0], path.token_ids)
            assert path.chosen_values is not None
            assert np.array_equal(table.values[:, 0], path.chosen_values)
            wide = table.values.astype(np.float64)
            assert path.log_sum_exp is not None
            assert (np.log(np.exp(wide).sum(axis=1)) <= path.log_sum_exp).all()
            assert all(len(set(row)) == len(row) for row in table.ids.tolist())
            assert (margins(table, path.flags) > 0).all()


def test_drift_is_about_what_was_asked_for(truth: Truth) -> None:
    before_flip = np.concatenate([truth.drift(3, i)[:5] for i in (1, 2, 3)])
    assert 1e-5 < np.median(before_flip) < 1e-3
    assert truth.drift(3, 0).max() == 0
    assert truth.drift(1, 2).max() == 0


def test_exposures_and_prompts_follow_from_the_answers(truth: Truth) -> None:
    with TraceReader.open(truth.path) as trace:
        cached = [[r.exposure.cached_tokens for r in trace.requests(arm)] for arm in trace.arms]
        prompts = [r.prompt_tokens for r in trace.requests(0)]
        assert prompts == [64, 108, 152, 196]
        assert cached[0] == cached[1] == [0, 0, 0, 0]
        # Each meets the prompt before and all of its answer but the last token, up to a flip.
        assert cached[3] == [0, 83, 127, 157]
        for arm in trace.arms:
            for i, one in enumerate(truth.numbers[arm.index]):
                assert np.array_equal(trace.prompt_ids(arm, i), one.prompt)
        own = truth.numbers[5]
        assert np.array_equal(own[2].prompt[108:128], own[1].path.token_ids)


def test_every_column_can_be_absent(tmp_path: Path) -> None:
    ways = ["row", "top-k", "logprob", "chosen", "tokens"]
    truth = write_trace(tmp_path / "t.msgpack", requests=1, tokens=4, arms=[ArmSpec(observe=w) for w in ways])
    with TraceReader.open(truth.path) as trace:
        paths = [trace.path(arm, 0) for arm in trace.arms]
        assert [p.fingerprints is not None for p in paths] == [True, False, False, False, False]
        assert [p.log_sum_exp is not None for p in paths] == [True, True, False, False, False]
        assert [p.chosen_values is not None for p in paths] == [True, True, True, True, False]
        tables = [trace.alternatives(arm, 0) for arm in trace.arms]
        assert [t is not None for t in tables] == [True, True, True, False, False]
