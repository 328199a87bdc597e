"""What is counted of a comparison under one configuration."""

import pytest

from replay.bisect.trial_reading import counted
from replay.verdicts import Comparison, DriftFrom, RequestVerdict, Verdict


@pytest.mark.parametrize(("kind", "drift"), [(DriftFrom.TOP_K, 0.5), (DriftFrom.CHOSEN, 0.25)])
def test_only_a_drift_over_the_lists_is_the_drift(kind, drift):
    seen = [(0.25, DriftFrom.TOP_K), (0.5, kind), (None, None)]
    requests = tuple(
        RequestVerdict(request=i, verdict=Verdict.DRIFTED, max_drift=value, drift_from=of)
        for i, (value, of) in enumerate(seen)
    )
    assert counted(Comparison(baseline=0, arm=1, within_arm=False, requests=requests)).max_drift == drift
    nothing = Comparison(baseline=0, arm=1, within_arm=False, requests=requests[2:])
    assert counted(nothing).max_drift is None
