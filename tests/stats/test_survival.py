"""Survival of agreement beside statsmodels, and what a flip and an unflipped end mean."""

import numpy as np
import pytest

from stats.survival import survival_of_agreement


def test_beside_statsmodels() -> None:
    from statsmodels.duration.survfunc import SurvfuncRight

    random = np.random.default_rng(1)
    for _ in range(100):
        n = int(random.integers(1, 60))
        tokens = random.integers(0, 40, n)
        flipped = random.uniform(size=n) < 0.5
        found = survival_of_agreement(tokens.tolist(), flipped.tolist())
        assert found is not None
        assert found.flips == flipped.sum()
        # The library does not accept an event at time 0, so both are shifted by one token.
        theirs = SurvfuncRight(tokens + 1.0, flipped.astype(int))
        steps = dict(zip(theirs.surv_times - 1, theirs.surv_prob, strict=True))
        assert found.agreeing == pytest.approx([steps[t] for t in found.times])


def test_its_ends() -> None:
    assert survival_of_agreement([], []) is None
    never = survival_of_agreement([10, 20], [False, False])
    assert never is not None
    assert (never.times, never.agreeing) == ((), ())
    both = survival_of_agreement([5, 5], [True, True])
    assert both is not None
    assert both.agreeing == (0.0,)
