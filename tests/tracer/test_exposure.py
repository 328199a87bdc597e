"""What a cache should serve, and the verdict of what it did."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracer.episode import CacheState, Exposure
from tracer.exposure import (
    ExposureVerdict,
    common_prefix,
    expected_tokens,
    exposure_verdict,
    short_by,
    state_holds,
)

IDS = st.lists(st.integers(0, 2), max_size=12)


@settings(max_examples=60)
@given(IDS, IDS, st.integers(1, 5))
def test_expectation_against_the_obvious_way(held, prompt, block):
    reusable = [n for n in range(len(prompt)) if n % block == 0 and n <= len(held) and held[:n] == prompt[:n]]
    assert expected_tokens(held, prompt, block) == max(reusable, default=0)


def test_nothing_is_expected_of_what_is_not_known():
    assert expected_tokens(None, [1, 2, 3]) is None


def test_common_prefix():
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([], [1]) == 0
    assert common_prefix((1, 2), (1, 2)) == 2


@pytest.mark.parametrize(
    ("cached", "expected", "state", "block", "verdict"),
    [
        (0, 0, CacheState.COLD, 1, ExposureVerdict.AS_EXPECTED),
        (0, 40, CacheState.COLD, 1, ExposureVerdict.AS_EXPECTED),
        (1, 0, CacheState.COLD, 1, ExposureVerdict.MORE),
        (40, 40, CacheState.COLD, 1, ExposureVerdict.MORE),
        (None, 0, CacheState.COLD, 1, ExposureVerdict.UNKNOWN),
        (0, None, CacheState.COLD, 1, ExposureVerdict.AS_EXPECTED),
        (40, 40, CacheState.WARM, 1, ExposureVerdict.AS_EXPECTED),
        (0, 40, CacheState.WARM, 1, ExposureVerdict.SHORT),
        (41, 40, CacheState.WARM, 1, ExposureVerdict.MORE),
        (40, None, CacheState.WARM, 1, ExposureVerdict.UNKNOWN),
        (None, 40, CacheState.WARM, 1, ExposureVerdict.UNKNOWN),
        (32, 40, CacheState.WARM, 16, ExposureVerdict.AS_EXPECTED),
        (16, 40, CacheState.WARM, 16, ExposureVerdict.SHORT),
        (0, 9, CacheState.WARM, 16, ExposureVerdict.AS_EXPECTED),
        (None, None, CacheState.AS_SERVED, 1, ExposureVerdict.UNKNOWN),
    ],
)
def test_verdicts(cached, expected, state, block, verdict):
    exposure = Exposure(prompt_tokens=50, cached_tokens=cached, expected_tokens=expected)
    assert exposure_verdict(exposure, state, block) is verdict


def test_more_belongs_only_to_states_with_the_second_layer():
    holding = [state for state in CacheState if state_holds(ExposureVerdict.MORE, state)]
    assert holding == [CacheState.WARM, CacheState.AS_SERVED]
    for verdict in (ExposureVerdict.SHORT, ExposureVerdict.UNKNOWN):
        assert not any(state_holds(verdict, state) for state in CacheState)


def test_short_by():
    assert short_by(Exposure(cached_tokens=10, expected_tokens=12)) == 2
    assert short_by(Exposure(expected_tokens=12)) is None
