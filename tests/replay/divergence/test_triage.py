"""A flip against the reference drift of the other requests."""

import numpy as np
import pytest

from replay.divergence import FAR, FEWEST_POSITIONS, REPETITION, compare_arms
from replay.divergence.request_verdict import Detail
from replay.verdicts import DriftFrom, Triage
from tests.replay.memory_trace import served, two_arms


def steady(drift, n=60, seed=0):
    """Two requests of n equal tokens whose second-best value moved by up to ``drift``."""
    changes = np.random.default_rng(seed).uniform(drift / 2, drift, n)
    changes[0] = drift
    tokens = list(range(1, n + 1))
    a = served(tokens, lists=[{t: 5.0, 0: 1.0} for t in tokens], values=[5.0] * n, lse=[6.0] * n)
    b = served(
        tokens, lists=[{t: 5.0, 0: 1.0 + float(c)} for t, c in zip(tokens, changes, strict=True)],
        values=[5.0] * n, lse=[6.0] * n,
    )  # fmt: skip
    return a, b


def flipping(lead_a, lead_b, tail_a=(), tail_b=()):
    """A request whose first token flips; the leads are those of each arm's own token."""
    rest = [{t: 1.0, 100: 0.0} for t in tail_a], [{t: 1.0, 100: 0.0} for t in tail_b]
    a = served([1, *tail_a], lists=[{1: lead_a, 2: 0.0}, *rest[0]], values=[lead_a] + [1.0] * len(tail_a),
               lse=[0.0] * (1 + len(tail_a)))  # fmt: skip
    b = served([2, *tail_b], lists=[{2: lead_b, 1: 0.0}, *rest[1]], values=[lead_b] + [1.0] * len(tail_b),
               lse=[0.0] * (1 + len(tail_b)))  # fmt: skip
    return a, b


def flip_of(pair, others, detail="alternatives"):
    a, b = zip(pair, *others, strict=True)
    return compare_arms(two_arms(list(a), list(b)), 0, 1, detail=detail).requests[0].flip


@pytest.mark.parametrize(
    ("lead_a", "lead_b", "expected"),
    [
        (0.05, 0.05, Triage.WITHIN_DRIFT),
        (0.1, 0.09, Triage.WITHIN_DRIFT),  # each token has to move by 0.095 only
        (0.2, 0.2, Triage.UNEXPLAINED),
        (0.01, 0.5, Triage.UNEXPLAINED),  # a near tie in the baseline, but the other arm is far away
        (3.0, 0.1, Triage.SUSPECTED_CORRUPTION),
    ],
)
def test_least_drift_against_the_reference(lead_a, lead_b, expected):
    flip = flip_of(flipping(lead_a, lead_b), [steady(0.1), steady(0.1, seed=1)])
    assert flip.least_drift == pytest.approx((lead_a + lead_b) / 2)
    assert flip.triage is expected
    assert f"{120} other" in flip.triage_reason or "of 120" in flip.triage_reason


def test_the_reference_leaves_the_flips_own_request_out():
    tail = list(range(10, 80))
    flip = flip_of(flipping(0.05, 0.05, tail, tail), [steady(0.1)])
    assert flip.reference.positions == 60
    assert flip.reference.requests == 1
    assert flip.reference.drift_from is DriftFrom.TOP_K


def test_quantiles_are_observed_values_over_all_other_requests():
    others = [steady(0.1, seed=s) for s in range(3)]
    flip = flip_of(flipping(0.05, 0.05), others)
    drift = np.sort(
        np.concatenate(
            [np.abs(np.diff([p.alternatives.values[:, 1] for p in pair], axis=0))[0] for pair in others]
        )
    )
    for q, found in ((0.5, flip.reference.q50), (0.95, flip.reference.q95), (0.99, flip.reference.q99)):
        assert found == pytest.approx(np.quantile(drift, q, method="higher"), abs=1e-6)
    assert flip.reference.largest == pytest.approx(drift[-1], abs=1e-6)


def test_too_few_positions():
    flip = flip_of(flipping(9.0, 9.0), [steady(0.1, n=FEWEST_POSITIONS - 1)])
    assert flip.triage is Triage.TOO_FEW_POSITIONS
    assert f"{FEWEST_POSITIONS} are needed" in flip.triage_reason
    assert (
        flip_of(flipping(0.1, 0.1), [steady(0.1, n=FEWEST_POSITIONS)]).triage is not Triage.TOO_FEW_POSITIONS
    )


def test_no_drift_elsewhere_leaves_a_flip_unexplained_however_large():
    assert flip_of(flipping(5.0, 5.0), [steady(0.0)]).triage is Triage.UNEXPLAINED


def test_far_is_counted_from_the_largest_reference_drift():
    just_below = flip_of(flipping(FAR * 0.1 * 0.99, FAR * 0.1 * 0.99), [steady(0.1)])
    above = flip_of(flipping(FAR * 0.1 * 1.01, FAR * 0.1 * 1.01), [steady(0.1)])
    assert (just_below.triage, above.triage) == (Triage.UNEXPLAINED, Triage.SUSPECTED_CORRUPTION)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_suspected_corruption(bad):
    a, b = flipping(0.01, 0.01)
    b.alternatives.values[0, 1] = bad
    flip = flip_of((a, b), [steady(0.1)])
    assert flip.triage is Triage.SUSPECTED_CORRUPTION
    assert "not finite" in flip.triage_reason


def test_a_listed_minus_infinity_alone_says_nothing():
    a, b = flipping(0.01, 0.01, [5], [5])
    for one in (a, b):
        one.alternatives.values[1, 1] = -np.inf
    assert flip_of((a, b), [steady(0.1)]).triage is Triage.WITHIN_DRIFT


def test_degenerate_repetition_in_one_arm_only():
    many, healthy = [9] * REPETITION, list(range(10, 10 + REPETITION))
    flip = flip_of(flipping(0.01, 0.01, healthy, many), [steady(0.1)])
    assert flip.triage is Triage.SUSPECTED_CORRUPTION
    assert f"warm ends in {REPETITION} times the same token" in flip.triage_reason
    assert flip_of(flipping(0.01, 0.01, many, many), [steady(0.1)]).triage is Triage.WITHIN_DRIFT
    assert flip_of(flipping(0.01, 0.01, healthy, many[1:]), [steady(0.1)]).triage is Triage.WITHIN_DRIFT


def test_a_token_that_is_in_no_list_of_the_other_arm_gives_a_lower_bound():
    a = served([1], lists=[{1: 3.0, 5: 1.0}], values=[3.0], lse=[4.0])
    b = served([2], lists=[{2: 2.0, 6: 1.5}], values=[2.0], lse=[4.0])
    flip = flip_of((a, b), [steady(0.1)])
    assert (flip.least_drift, flip.least_drift_is_bound) == (1.25, True)
    assert "at least" in flip.triage_reason


def test_the_end_of_one_arm_takes_at_least_half_the_other_arms_margin():
    a = served([1, 3], lists=[{1: 3.0, 5: 1.0}, {3: 2.0, 4: 1.9}], values=[3.0, 2.0], lse=[4.0, 4.0])
    b = served([1], lists=[{1: 3.0, 5: 1.0}], values=[3.0], lse=[4.0])
    flip = flip_of((a, b), [steady(0.1)])
    assert flip.length_difference
    assert flip.least_drift == pytest.approx(0.05)
    assert flip.least_drift_is_bound
    assert flip.triage is Triage.WITHIN_DRIFT


def test_without_a_margin_a_flip_stays_unexplained():
    flip = flip_of((served([1]), served([2])), [steady(0.1)])
    assert flip.triage is Triage.UNEXPLAINED
    assert "not observed" in flip.triage_reason


@pytest.mark.parametrize("lead", [0.05, 0.2, 3.0])
def test_the_triage_does_not_depend_on_the_level_of_detail(lead):
    """The chosen token does not move in the other requests, so its drift alone would explain nothing."""
    found = [flip_of(flipping(lead, lead), [steady(0.1), steady(0.1, seed=1)], d) for d in Detail]
    assert found[0] == found[1]
    assert found[0].reference.drift_from is DriftFrom.TOP_K


def unlisted(drift, n=60):
    """Two requests of n equal tokens whose lists were not recorded; the chosen token moved by ``drift``."""
    tokens = list(range(1, n + 1))
    return (
        served(tokens, values=[5.0] * n, lse=[6.0] * n),
        served(tokens, values=[5.0 - drift] * n, lse=[6.0] * n),
    )


@pytest.mark.parametrize("detail", list(Detail))
def test_a_reference_of_the_chosen_tokens_alone_says_so_and_proves_no_corruption(detail):
    within = flip_of(flipping(0.05, 0.05), [steady(0.1), unlisted(0.1)], detail)
    beyond = flip_of(flipping(3.0, 3.0), [steady(0.1), unlisted(0.1)], detail)
    assert (within.triage, beyond.triage) == (Triage.WITHIN_DRIFT, Triage.UNEXPLAINED)
    for flip in (within, beyond):
        assert flip.reference.drift_from is DriftFrom.CHOSEN
        assert "120 other positions, some by the chosen token alone, drift" in flip.triage_reason
