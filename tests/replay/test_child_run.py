"""A replay in a child process: followed, stopped, killed, and without numpy before the engine."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from replay.arm_schedule import ReplayOptions
from replay.child_run import Ending, ReplayChild
from tracer.engines.choice import EngineChoice
from tracer.episode import CacheState
from tracer.tracefile import TraceReader

COLD = ReplayOptions(states=(CacheState.COLD,), repeats=1)


def choice(tmp_path, recording, **fields):
    script = recording.engine._script
    fields = {"disturbance": script.disturbance, "answer_tokens": script.answer_tokens, **fields}
    path = tmp_path / "child.json"
    path.write_text(json.dumps(fields))
    return EngineChoice(engine="fake", fake_script=str(path))


def wait_for(child, kind, seconds=120):
    """Collect events until one of this kind came."""
    seen = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen += child.events()
        if any(event.kind == kind for event in seen):
            return seen
        if child.outcome() is not None:
            break
        time.sleep(0.02)
    pytest.fail(f"no {kind} in {[event.kind for event in seen]}, {child.outcome()}")


def test_child_replays_and_the_parent_follows_the_file(tmp_path, recording, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    with TraceReader.open(recording.path) as trace:
        child = ReplayChild(recording.path, choice(tmp_path, recording), COLD)
        outcome = child.wait(60)
        assert outcome.ending is Ending.DONE, outcome
        assert trace.refresh()
        assert trace.arms[1].label == "cold"
        assert trace.end(1).completed
    kinds = [event.kind for event in child.events()]
    assert kinds[0] == "arm_started"
    assert kinds[-2:] == ["arm_ended", "done"]
    assert kinds.count("request_ended") == 4


def test_stopping_keeps_what_was_written_and_resumes(tmp_path, recording):
    slow = choice(tmp_path, recording, token_seconds=0.05)
    child = ReplayChild(recording.path, slow, COLD)
    wait_for(child, "request_ended")
    outcome = child.stop()
    assert outcome.ending is Ending.STOPPED
    with TraceReader.open(recording.path) as trace:
        assert trace.end(1) is None
        assert 1 <= len(trace.requests(1)) < 4
    assert ReplayChild(recording.path, choice(tmp_path, recording), COLD).wait(60).ending is Ending.DONE
    assert recording.labels() == ["recording", "cold"]


@pytest.mark.skipif(os.name == "nt", reason="no signals to name on Windows")
def test_a_child_that_dies_is_named_and_the_trace_stays_good(tmp_path, recording):
    child = ReplayChild(recording.path, choice(tmp_path, recording, token_seconds=0.05), COLD)
    wait_for(child, "request_ended")
    os.kill(child.pid, signal.SIGKILL)
    outcome = child.wait(30)
    assert outcome.ending is Ending.DIED
    assert "SIGKILL" in outcome.sentence
    with TraceReader.open(recording.path) as trace:
        assert len(trace.requests(1)) >= 1


def test_a_refusal_comes_back_as_one_sentence(recording):
    outcome = ReplayChild(recording.path, EngineChoice(engine="fake", fake_script="none.json"), COLD).wait(60)
    assert outcome.ending is Ending.FAILED
    assert outcome.sentence.startswith("The fake engine's script 'none.json' cannot be read")


def test_nothing_imports_numpy_before_the_engine_is_loaded():
    code = (
        "import sys, replay.child, replay.arm_schedule\n"
        "assert 'numpy' not in sys.modules, 'numpy came before the engine'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
