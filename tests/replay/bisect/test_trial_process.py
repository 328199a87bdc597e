"""Configurations that are served in a process of their own."""

import pytest

from replay.bisect import trial_process
from replay.bisect.outcome import Agreement, Found
from replay.bisect.search import BisectOptions, bisect_trace
from tests.replay.bisect.conftest import CHOICE, Openings
from tracer.engines.choice import EngineChoice
from tracer.errors import EngineDied, UsageError
from tracer.tracefile import TraceReader

ABORTS_ON_THREADS = (
    "import os, sys; sys.path.append(sys.argv[1]); line = sys.stdin.buffer.readline();"
    'b\'"setting":"threads"\' in line and os.abort();'
    "import msgspec; from replay.bisect import trial_process as child;"
    "reply = child._obey(msgspec.json.decode(line, type=child.TrialOrder));"
    "os.write(1, msgspec.json.encode(reply))"
)
OPTIONS = BisectOptions(candidates=("batch=1",), isolated=True)


def test_a_child_finds_what_this_process_finds(tmp_path, talk):
    def columns(folder, name):
        with TraceReader.open(tmp_path / folder / name) as trace:
            return [
                trace.path(arm, request.index).fingerprints.tobytes()
                for arm in trace.arms
                for request in trace.requests(arm)
            ]

    apart = bisect_trace(talk, CHOICE, tmp_path / "apart", OPTIONS)
    here = bisect_trace(
        talk, CHOICE, tmp_path / "here", BisectOptions(candidates=("batch=1",)), opener=Openings()
    )
    assert apart.found is here.found is Found.SETTING
    assert apart.chosen.cross == here.chosen.cross
    for name in ("default.msgpack", "batch=1.msgpack"):
        assert columns("apart", name) == columns("here", name)


def test_a_candidate_that_aborts_the_process_is_refused_and_the_bisect_goes_on(tmp_path, talk, monkeypatch):
    monkeypatch.setattr(trial_process, "_START", ABORTS_ON_THREADS)
    options = BisectOptions(candidates=("threads=1", "batch=1"), isolated=True)
    result = bisect_trace(talk, CHOICE, tmp_path / "arms", options)
    (died, found) = result.trials
    assert died.agreement is Agreement.REFUSED
    assert "SIGABRT" in died.reason
    assert found.verified


def test_a_default_that_aborts_ends_the_bisect(tmp_path, talk, monkeypatch):
    monkeypatch.setattr(trial_process, "_START", "import os; os.abort()")
    with pytest.raises(EngineDied, match="SIGABRT"):
        bisect_trace(talk, CHOICE, tmp_path / "arms", OPTIONS)


def test_an_error_of_the_child_is_the_error_of_the_bisect(tmp_path, talk):
    choice = EngineChoice(engine="fake", fake_script=str(tmp_path / "missing.json"))
    with pytest.raises(UsageError, match="cannot be read"):
        bisect_trace(talk, choice, tmp_path / "arms", OPTIONS)
