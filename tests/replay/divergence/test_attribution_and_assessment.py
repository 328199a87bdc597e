"""Is the cache to blame, and was the state what the arm claims?"""

import pytest

from replay.divergence import analyse, assess_arm
from replay.verdicts import ArmStatus, EvidenceClass, ExposureVerdict
from tests.replay.memory_trace import MemoryTrace, exposure, served
from tests.synthetic import ArmSpec, write_trace
from tracer.episode import CacheState, Exposure, ExposureSource, RequestError, Sampling
from tracer.tracefile import TraceReader


def attributed(tmp_path, *specs):
    """Per request, ``attributable`` of the first warm arm, and the reasons."""
    write_trace(tmp_path / "t.msgpack", requests=3, tokens=8, arms=[ArmSpec(state="warm"), *specs])
    with TraceReader.open(tmp_path / "t.msgpack") as trace:
        analysis = analyse(trace)
        arm = next(a.index for a in trace.arms if a.label == "warm")
        requests = next(c for c in analysis.comparisons if c.arm == arm).requests
    return [v.attributable for v in requests], [v.attribution_reason for v in requests]


COLD = (ArmSpec(state="cold"), ArmSpec(state="cold", repeat=1))
WARM = {"state": "warm", "drift": 1e-2, "flips": {2: 3}}


def test_both_arms_repeat_both_states_hold_and_they_differ(tmp_path):
    found, reasons = attributed(tmp_path, *COLD, ArmSpec(**WARM), ArmSpec(**WARM, repeat=1))
    assert found == [None, True, True]  # request 0 met an empty cache and does not differ
    assert reasons[0] == ""
    assert "both arms repeat themselves" in reasons[2]


def test_without_repeats_it_is_not_known(tmp_path):
    found, reasons = attributed(tmp_path, *COLD, ArmSpec(**WARM))
    assert found == [None, None, None]
    assert reasons[1] == "warm was not repeated"


def test_an_arm_that_does_not_repeat_itself_is_not_attributable(tmp_path):
    found, reasons = attributed(tmp_path, *COLD, ArmSpec(**WARM), ArmSpec(**WARM, repeat=1, noise=5))
    assert found == [None, False, False]
    assert reasons[1] == "warm does not repeat itself here: drifted"
    cold = (ArmSpec(state="cold"), ArmSpec(state="cold", repeat=1, drift=1e-3))
    found, reasons = attributed(tmp_path / "b", *cold, ArmSpec(**WARM), ArmSpec(**WARM, repeat=1))
    assert found == [False if i else None for i in range(3)]
    assert reasons[1] == "cold does not repeat itself here: drifted"


def test_a_state_that_is_not_verified_is_not_attributable(tmp_path):
    warm = {**WARM, "cached": 0}
    found, reasons = attributed(tmp_path, *COLD, ArmSpec(**warm), ArmSpec(**warm, repeat=1))
    assert found == [None, False, False]
    assert "warm is state not as claimed: request 1 is short by" in reasons[1]


def test_a_cut_off_repeat_says_nothing(tmp_path):
    found, _ = attributed(
        tmp_path, *COLD, ArmSpec(**WARM), ArmSpec(**WARM, repeat=1, requests=2, complete=False)
    )
    assert found == [None, True, None]


def test_tokens_alone_can_attribute_a_flip_and_say_so(tmp_path):
    bare = {"observe": "tokens"}
    cold = (ArmSpec(state="cold", **bare), ArmSpec(state="cold", repeat=1, **bare))
    found, reasons = attributed(tmp_path, *cold, ArmSpec(**WARM, **bare), ArmSpec(**WARM, repeat=1, **bare))
    assert found == [None, None, True]
    assert "(by tokens only)" in reasons[2]


@pytest.fixture(autouse=True)
def folders(tmp_path):
    (tmp_path / "b").mkdir()


def assessed(exposures, state=CacheState.WARM, **fields):
    trace = MemoryTrace()
    requests = [served([1], exposure=one, **fields) for one in exposures]
    return assess_arm(trace, trace.add_arm(requests, state=state))


@pytest.mark.parametrize(
    ("state", "cached", "expected", "status", "verdict"),
    [
        (CacheState.COLD, 0, 0, ArmStatus.VERIFIED, ExposureVerdict.AS_EXPECTED),
        (CacheState.COLD, 5, 0, ArmStatus.STATE_NOT_AS_CLAIMED, ExposureVerdict.MORE),
        (CacheState.WARM, 7, 7, ArmStatus.VERIFIED, ExposureVerdict.AS_EXPECTED),
        (CacheState.WARM, 5, 7, ArmStatus.STATE_NOT_AS_CLAIMED, ExposureVerdict.SHORT),
        (CacheState.WARM, 9, 7, ArmStatus.VERIFIED, ExposureVerdict.MORE),
        (CacheState.WARM, 5, 0, ArmStatus.VERIFIED, ExposureVerdict.MORE),
        (CacheState.NO_PROMPT_CACHE, 9, 7, ArmStatus.STATE_NOT_AS_CLAIMED, ExposureVerdict.MORE),
        (CacheState.SNAPSHOT, 0, 7, ArmStatus.STATE_NOT_AS_CLAIMED, ExposureVerdict.SHORT),
        (CacheState.WARM, 0, 0, ArmStatus.VACUOUS, ExposureVerdict.AS_EXPECTED),
        (CacheState.WARM, None, 7, ArmStatus.UNVERIFIED, ExposureVerdict.UNKNOWN),
        (CacheState.AS_SERVED, 7, 7, ArmStatus.UNVERIFIED, ExposureVerdict.AS_EXPECTED),
    ],
)
def test_status_of_an_arm(state, cached, expected, status, verdict):
    found = assessed(
        [Exposure(cached_tokens=cached, expected_tokens=expected, source=ExposureSource.ENGINE)], state
    )
    assert (found.status, found.exposures) == (status, (verdict,))


def test_the_weakest_source_decides_the_evidence_class():
    def with_sources(*sources):
        return assessed([Exposure(cached_tokens=1, expected_tokens=1, source=s) for s in sources])

    assert with_sources(ExposureSource.ENGINE, ExposureSource.USAGE).evidence_class is EvidenceClass.COUNTED
    assert with_sources(ExposureSource.ENGINE, ExposureSource.METRICS).evidence_class is EvidenceClass.METRICS
    declared = with_sources(ExposureSource.METRICS, ExposureSource.DECLARED)
    assert declared.evidence_class is EvidenceClass.DECLARED
    assert not declared.may_count
    assert with_sources(ExposureSource.NOT_OBSERVED).evidence_class is EvidenceClass.DECLARED


def test_what_keeps_an_arm_from_counting():
    good = exposure(2)
    assert assessed([good]).may_count
    assert assessed([good], sampling=Sampling(temperature=0.7)).status is ArmStatus.NOT_GREEDY
    failed = assessed([good], error=RequestError(kind="EngineError", message="went away"))
    assert (failed.status, failed.reason) == (ArmStatus.FAILED, "request 0 failed: went away")
    lost = assessed([good], error=RequestError(kind="lost", message="bad checksum"))
    assert lost.status is ArmStatus.INCOMPLETE
    assert assessed([good], serial=False).status is ArmStatus.UNVERIFIED
    assert assessed([]).status is ArmStatus.UNVERIFIED
    trace = MemoryTrace()
    trace.add_arm([served([1])], complete=False)
    assert assess_arm(trace, 0).status is ArmStatus.INCOMPLETE
