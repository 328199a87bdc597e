"""A short recording on ``FakeEngine`` whose cache moves the numbers visibly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from replay.arm_schedule import ReplayOptions
from replay.divergence import analyse
from replay.replay_run import replay_on
from tracer.engines.fake import FakeEngine, FakeScript
from tracer.episode import CacheState, RunPlace, Sampling, WorkloadSpec
from tracer.progress import Silent
from tracer.recording import RecordingSettings, record_episode
from tracer.tracefile import TraceReader
from tracer.workloads.chat import Chat

USERS = ("What is rain?", "And where does it end?", "Who measures it?", "Thank you, and good night.")


def chat(users=USERS, name="talk"):
    messages = [{"role": "system", "content": "Answer in short sentences, and never with a joke."}]
    messages += [{"role": "user", "content": text} for text in users]
    return Chat(WorkloadSpec(name="chat", params={"id": name, "messages": messages}))


@dataclass
class Recording:
    """A trace file and the engine that recorded it."""

    path: Path
    engine: FakeEngine

    def replay(self, *states, **options):
        states = tuple(CacheState(s) for s in states) or (CacheState.COLD, CacheState.WARM)
        return replay_on(self.engine, self.path, ReplayOptions(states=states, **options))

    def labels(self):
        with TraceReader.open(self.path) as trace:
            return [arm.label for arm in trace.arms]

    def exposures(self, label):
        with TraceReader.open(self.path) as trace:
            arm = next(a for a in trace.arms if a.label == label)
            return [request.exposure.cached_tokens for request in trace.requests(arm)]

    def analysis(self, **options):
        with TraceReader.open(self.path) as trace:
            return analyse(trace, **options)

    def verdicts(self, label, **options):
        """Verdicts of the arm with this label against its baseline."""
        with TraceReader.open(self.path) as trace:
            arm = next(a.index for a in trace.arms if a.label == label)
            return next(c for c in analyse(trace, **options).comparisons if c.arm == arm).requests


def record(path, engine, workload=None, state=CacheState.WARM, position=0, **settings):
    settings.setdefault("sampling", Sampling(max_new_tokens=12))
    return record_episode(
        engine,
        workload or chat(),
        path,
        RecordingSettings(state=state, **settings),
        RunPlace(run_id="recorded", position=position),
        Silent(),
    )


@pytest.fixture
def script():
    """Disturbed enough that cold and warm differ, and now and then flip."""
    return FakeScript(disturbance=0.2, answer_tokens=40)


@pytest.fixture
def recording(tmp_path, script):
    engine = FakeEngine(script)
    record(tmp_path / "t.msgpack", engine)
    return Recording(tmp_path / "t.msgpack", engine)
