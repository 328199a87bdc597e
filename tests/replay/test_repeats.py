"""The check that tests of real engines rely on: it passes exact repeats and nothing less."""

from pathlib import Path

import pytest

from replay.verdicts import Evidence, Verdict
from tests.replay.conftest import Recording, record
from tests.replay.repeats import check_repeats
from tracer.engines.fake import FakeEngine, FakeFault, FakeScript
from tracer.episode import CacheState


def studied(path: Path, script: FakeScript) -> Recording:
    """A cold recording, its repeat, and two warm arms, as studies make them."""
    engine = FakeEngine(script)
    record(path, engine, state=CacheState.COLD)
    recording = Recording(path, engine)
    recording.replay("cold", repeats=1)
    recording.replay("warm", repeats=2)
    return recording


def test_exact_repeats_pass(tmp_path: Path) -> None:
    check_repeats(studied(tmp_path / "t.msgpack", FakeScript(disturbance=0.2)).path)


def test_numbers_that_move_below_equal_tokens_are_caught(tmp_path: Path) -> None:
    wobbles = FakeScript(disturbance=0.0001, faults=(FakeFault(kind="wobbles"),))
    recording = studied(tmp_path / "t.msgpack", wobbles)
    controls = recording.analysis().controls
    assert [control.differs for control in controls] == [False, False]
    with pytest.raises(AssertionError, match="drifted"):
        check_repeats(recording.path)


def test_equal_numbers_without_rows_are_caught(tmp_path: Path) -> None:
    recording = studied(tmp_path / "t.msgpack", FakeScript(without=("full_row",)))
    requests = [request for control in recording.analysis().controls for request in control.requests]
    assert {(r.verdict, r.evidence) for r in requests} == {(Verdict.IDENTICAL, Evidence.TOP_K)}
    with pytest.raises(AssertionError, match="top-k"):
        check_repeats(recording.path)
