"""Capture of rows against a slow, obvious version: ties, NaN, infinities, small vocabularies."""

import math

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tracer.capture import CaptureMode, RowCapture, fingerprint, greedy, log_sum_exp, top
from tracer.columns import PositionFlag
from tracer.errors import UsageError

odd = st.sampled_from([0.0, -0.0, 1.0, 1.0, 2.5, -3.0, math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45])
plain = st.floats(-30, 30, width=32)
sizes = st.sampled_from([1, 2, 3, 19, 20, 64, 300, 2560, 2561, 5000])


@st.composite
def rows(draw):
    """A few drawn values spread over a row of noise, so that large rows stay cheap to draw."""
    size = draw(sizes)
    seed = draw(st.integers(0, 2**32 - 1))
    kind = draw(st.sampled_from(["noise", "coarse", "constant"]))
    noise = np.random.default_rng(seed).standard_normal(size) * 3
    row = {"noise": noise, "coarse": np.round(noise), "constant": np.zeros(size)}[kind].astype(np.float32)
    special = draw(st.lists(st.one_of(odd, plain), max_size=12))
    for value in special:
        row[draw(st.integers(0, size - 1))] = value
    return row


def slow_top(row, k):
    ranked = sorted((-float(value), token) for token, value in enumerate(row) if not math.isnan(value))
    return [token for _, token in ranked[:k]]


def slow_log_sum_exp(row):
    values = [float(value) for value in row]
    if any(math.isnan(value) for value in values):
        return math.nan
    highest = max(values)
    if math.isinf(highest):
        return highest
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))


@settings(max_examples=150, deadline=None)
@given(row=rows(), k=st.sampled_from([1, 2, 5, 20, 255]))
def test_equals_the_slow_version(row, k):
    for guess in (math.nan, -math.inf, 0.0, 2.5, 29.0):
        assert top(row, k, guess)[0].tolist() == slow_top(row, k)
    ids, values = top(row, k)
    assert ids.tolist() == slow_top(row, k)
    assert np.array_equal(values, row[ids])
    assert greedy(row) == (slow_top(row, 1) or [0])[0]
    expected = slow_log_sum_exp(row)
    assert log_sum_exp(row, float(row[greedy(row)])) == pytest.approx(
        expected, abs=2e-6, rel=1e-7, nan_ok=True
    )


@settings(max_examples=30, deadline=None)
@given(row=rows(), k=st.sampled_from([1, 3, 20]), forced=st.booleans())
def test_columns_of_a_position(row, k, forced):
    capture = RowCapture(len(row), k, keep_rows=True)
    wanted = len(row) - 1 if forced else None
    token = capture.take(row, wanted)
    path, alternatives = capture.path(), capture.alternatives()
    assert token == path.token_ids[0] == (greedy(row) if wanted is None else wanted)
    assert np.array_equal(path.chosen_values, row[[token]], equal_nan=True)
    low, high = (int(half) for half in path.fingerprints[0])
    assert (high << 64) + low == xxhash.xxh3_128_intdigest(row.tobytes())
    best = slow_top(row, k)
    count = int(alternatives.counts[0])
    assert alternatives.ids[0, :count].tolist() == best
    tied = len(best) > 1 and row[best[0]] == row[best[1]]
    assert bool(path.flags[0] & PositionFlag.EXACT_TIE) == tied
    assert bool(path.flags[0] & PositionFlag.ALTERNATIVES) == bool(best)
    assert np.array_equal(capture.rows()[0], row, equal_nan=True)


@given(arrays(np.float32, 300, elements=plain))
@settings(max_examples=20, deadline=None)
def test_fingerprint_sees_every_bit(row):
    other = row.copy()
    other.view(np.uint32)[137] ^= 1
    assert fingerprint(row) != fingerprint(other)


@pytest.mark.parametrize("mode", list(CaptureMode))
def test_modes_agree_and_the_row_may_be_overwritten(mode):
    rng = np.random.default_rng(5)
    stored = rng.standard_normal((150, 3000)).astype(np.float32)
    reference = RowCapture(3000, 7, keep_rows=True)
    capture = RowCapture(3000, 7, mode=mode, keep_rows=True)
    for _ in range(2):
        reference.clear()
        capture.clear()
        shared = np.empty(3000, np.float32)
        for row in stored:
            reference.take(row)
            shared[:] = row
            capture.take(shared)
            shared[:] = np.nan
            capture.overlap()
        assert len(capture) == 150
        for name in ("token_ids", "flags", "chosen_values", "log_sum_exp", "fingerprints"):
            assert np.array_equal(getattr(capture.path(), name), getattr(reference.path(), name)), name
        assert np.array_equal(capture.alternatives().values, reference.alternatives().values)
        assert np.array_equal(capture.rows(), stored)
    capture.close()


def test_an_error_on_the_thread_reaches_the_caller(monkeypatch):
    capture = RowCapture(300, 5, mode=CaptureMode.THREAD)
    monkeypatch.setattr("tracer.capture.top", lambda *_: 1 / 0)
    capture.take(np.zeros(300, np.float32))
    with pytest.raises(ZeroDivisionError):
        capture.path()
    capture.close()


def test_no_request_and_wrong_k():
    assert len(RowCapture(300, 5).path()) == 0
    for k in (0, 256):
        with pytest.raises(UsageError, match="255"):
            RowCapture(300, k)
