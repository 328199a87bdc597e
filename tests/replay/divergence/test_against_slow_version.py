"""The vectorised arithmetic against the obvious one, position by position and id by id."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.divergence import compare_arms
from replay.verdicts import Evidence, Verdict
from tests.replay.memory_trace import served, two_arms
from tracer.episode import Scale

SETTINGS = settings(max_examples=60, deadline=None)
odd_values = st.sampled_from([0.0, -0.0, 1.5, 1.5, 2.25, -3.0, math.inf, -math.inf, math.nan])
even_values = st.floats(-20, 20, width=32)


@st.composite
def requests(draw, length):
    """One request: tokens from a small alphabet, so that two of them often agree."""
    tokens = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
    value = draw(st.sampled_from([odd_values, even_values]))
    number_of = lambda n: draw(st.lists(value, min_size=n, max_size=n))  # noqa: E731
    lists = None
    if draw(st.booleans()):
        lists = []
        for _ in range(length):
            ids = draw(st.lists(st.integers(0, 5), unique=True, max_size=4))
            lists.append(dict(zip(ids, number_of(len(ids)), strict=True)))
    return served(
        tokens,
        values=number_of(length) if draw(st.booleans()) else None,
        lse=number_of(length) if draw(st.booleans()) else None,
        prints=draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
        if draw(st.booleans())
        else None,
        lists=lists,
        scale=draw(st.sampled_from([Scale.LOGIT, Scale.LOGPROB])),
    )


@st.composite
def pairs(draw):
    """Two requests; often the second is the first with little changed."""
    a = draw(requests(draw(st.integers(0, 5))))
    b = a if draw(st.booleans()) else draw(requests(draw(st.integers(0, 5))))
    return a, b


def slow_distance(x, y):
    if math.isfinite(x) and math.isfinite(y):
        return abs(x - y)
    return 0.0 if x == y or (math.isnan(x) and math.isnan(y)) else math.inf


def slow_offset(one, p):
    if one.request.scale is Scale.LOGPROB:
        return 0.0
    if one.request.scale is None or one.path.log_sum_exp is None:
        return None
    return float(one.path.log_sum_exp[p])


def slow_listed(one, p):
    """{id: value} of one position, or None."""
    if one.alternatives is None:
        return None
    n = int(one.alternatives.counts[p])
    ids, values = one.alternatives.ids[p, :n].tolist(), one.alternatives.values[p, :n].tolist()
    return dict(zip(ids, values, strict=True)) or None


def slow_drift(a, b, p):
    """max over ids in both lists of |Δ(value − lse)|, else of the chosen token; None = not comparable."""
    offset_a, offset_b = slow_offset(a, p), slow_offset(b, p)
    if offset_a is None or offset_b is None:
        return None

    def apart(x, y):
        with np.errstate(invalid="ignore"):
            return slow_distance(float(np.float64(x) - offset_a), float(np.float64(y) - offset_b))

    left, right = slow_listed(a, p), slow_listed(b, p)
    if left and right and left.keys() & right.keys():
        return max(apart(left[i], right[i]) for i in left.keys() & right.keys())
    same_token = a.path.token_ids[p] == b.path.token_ids[p]
    if same_token and a.path.chosen_values is not None and b.path.chosen_values is not None:
        return apart(a.path.chosen_values[p], b.path.chosen_values[p])
    return None


def slow_flip(a, b):
    left, right = a.path.token_ids.tolist(), b.path.token_ids.tolist()
    for p in range(max(len(left), len(right))):
        if left[p : p + 1] != right[p : p + 1]:
            return p
    return None


def slow_same(x, y):
    return bool(x == y or (x != x and y != y))


def slow_equal(a, b, p):
    """(evidence, equal) at one position of requests on one scale; (None, None) without numbers."""
    left, right = slow_listed(a, p), slow_listed(b, p)
    values = a.path.chosen_values is not None and b.path.chosen_values is not None
    chosen = None
    if values:
        chosen = slow_same(a.path.chosen_values[p], b.path.chosen_values[p])
        if a.path.log_sum_exp is not None and b.path.log_sum_exp is not None:
            chosen = chosen and slow_same(a.path.log_sum_exp[p], b.path.log_sum_exp[p])
    if left and right:
        equal = list(left) == list(right) and all(slow_same(left[i], right[i]) for i in left)
        return Evidence.TOP_K, equal and chosen is not False
    return (Evidence.CHOSEN, chosen) if values else (None, None)


@SETTINGS
@given(pairs())
def test_drift_is_the_obvious_one(pair):
    a, b = pair
    verdict = compare_arms(two_arms([a], [b]), 0, 1).requests[0]
    flip = slow_flip(a, b)
    n = min(len(a.path), len(b.path)) if flip is None else min(flip + 1, len(a.path), len(b.path))
    assert verdict.compared_positions == n
    if verdict.evidence is Evidence.ROW and verdict.verdict is Verdict.IDENTICAL:
        assert verdict.max_drift == 0.0
        return
    prints = a.path.fingerprints is not None and b.path.fingerprints is not None
    if prints and np.array_equal(a.path.fingerprints[:n], b.path.fingerprints[:n]):
        return  # equal rows are not read again
    drift = [d for p in range(n) if (d := slow_drift(a, b, p)) is not None]
    if not drift:
        assert verdict.max_drift is None
        assert verdict.median_drift is None
    else:
        assert verdict.max_drift == max(drift)
        assert slow_same(verdict.median_drift, float(np.median(drift)))


@SETTINGS
@given(pairs())
def test_verdict_and_evidence_are_the_obvious_ones(pair):
    a, b = pair
    verdict = compare_arms(two_arms([a], [b]), 0, 1, detail="path").requests[0]
    flip = slow_flip(a, b)
    if flip is not None:
        assert verdict.verdict is Verdict.FLIPPED
        assert verdict.flip.position == flip
        assert verdict.flip.length_difference == (flip == min(len(a.path), len(b.path)))
        return
    n = len(a.path)
    if n == 0:
        assert verdict.verdict is Verdict.UNOBSERVED
        return
    if a.path.fingerprints is not None and b.path.fingerprints is not None:
        equal = np.array_equal(a.path.fingerprints, b.path.fingerprints)
        assert verdict.verdict is (Verdict.IDENTICAL if equal else Verdict.DRIFTED)
        assert verdict.evidence is Evidence.ROW
        return
    if a.request.scale is not b.request.scale or a.request.scale is None:
        assert verdict.verdict in (Verdict.UNOBSERVED, Verdict.DRIFTED)
        return
    found = [slow_equal(a, b, p) for p in range(n)]
    unequal = [p for p, (_, equal) in enumerate(found) if equal is False]
    if unequal:
        assert verdict.verdict is Verdict.DRIFTED
        assert verdict.first_drift == unequal[0]
    elif any(evidence is None for evidence, _ in found):
        assert verdict.verdict is Verdict.UNOBSERVED
    else:
        assert verdict.verdict is Verdict.IDENTICAL
        weakest = Evidence.CHOSEN if any(e is Evidence.CHOSEN for e, _ in found) else Evidence.TOP_K
        assert verdict.evidence is weakest


@SETTINGS
@given(pairs())
def test_a_request_against_itself_never_differs(pair):
    one = pair[0]
    verdict = compare_arms(two_arms([one], [one]), 0, 1).requests[0]
    assert verdict.verdict in (Verdict.IDENTICAL, Verdict.UNOBSERVED)
    assert verdict.max_drift in (None, 0.0)


@SETTINGS
@given(pairs())
def test_comparison_is_symmetric(pair):
    a, b = pair
    there = compare_arms(two_arms([a], [b]), 0, 1).requests[0]
    back = compare_arms(two_arms([b], [a]), 0, 1).requests[0]
    assert (there.verdict, there.evidence, there.max_drift) == (back.verdict, back.evidence, back.max_drift)
    assert there.first_drift == back.first_drift
    if there.flip is not None:
        assert (there.flip.a.margin, there.flip.b.margin) == (back.flip.b.margin, back.flip.a.margin)
        assert slow_same(there.flip.least_drift, back.flip.least_drift)


@SETTINGS
@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_edit_distance_is_the_obvious_one(a, b):
    from replay.divergence.views import edit_distance

    table = [[i + j if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(
                table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            )
    assert edit_distance(np.array(a, np.int32), np.array(b, np.int32)) == table[-1][-1]
