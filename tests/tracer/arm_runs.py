"""Short arms on ``FakeEngine`` for tests: a conversation, fixed prompts, and comparing what was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from tracer.arm_loop import execute_arm
from tracer.arm_plan import ArmPlan
from tracer.engines.fake import FakeEngine
from tracer.episode import (
    CacheState,
    Episode,
    Request,
    RunPlace,
    Sampling,
    Timing,
    Way,
    WorkloadSpec,
    default_priming,
)
from tracer.request_source import Answer, AnswerDigest, PlannedRequest
from tracer.resume import CommittedArm
from tracer.tracefile import TraceReader, TraceWriter
from tracer.workloads.chat import Chat

OPENED: list[TraceReader] = []
"""Closed by the fixture in ``tests/tracer/conftest.py``."""


def open_trace(path: Path) -> TraceReader:
    trace = TraceReader.open(path)
    OPENED.append(trace)
    return trace


USERS = ("What is rain?", "And where does it end?", "Who measures it?", "Thank you.")
PLACE = RunPlace(run_id="test")


def chat(users=USERS, history="ids", agent="model"):
    messages = [{"role": "system", "content": "Answer in short sentences, and never with a joke."}]
    messages += [{"role": "user", "content": text} for text in users]
    return Chat(
        WorkloadSpec(name="chat", params={"id": "talk", "messages": messages}, history=history, agent=agent)
    )


def plan(state=CacheState.WARM, **changes):
    changes.setdefault("priming", default_priming(state))
    changes.setdefault("way", Way.RECORDED)
    return ArmPlan(state=state, place=PLACE, sampling=Sampling(max_new_tokens=12), **changes)


class FixedSource:
    """Given prompts, whatever was answered."""

    def __init__(self, prompts, outputs=None, forced=False):
        self._prompts, self._outputs, self._forced, self._at = prompts, outputs, forced, -1

    @property
    def planned(self):
        return len(self._prompts)

    def next_request(self):
        self._at += 1
        if self._at >= len(self._prompts):
            return None
        output = None if self._outputs is None else tuple(self._outputs[self._at])
        return PlannedRequest(
            prompt_ids=tuple(self._prompts[self._at]),
            recorded_output_ids=output,
            forced_ids=output if self._forced else None,
        )

    def digest(self, answer: Answer) -> AnswerDigest:
        return AnswerDigest()

    def outcome(self):
        return None


def new_trace(path: Path, workload=None) -> TraceWriter:
    workload = workload or chat()
    return TraceWriter.create(
        path,
        Episode(episode_id=workload.episode_id, workload=workload.spec, created_at=0.0, writer="test"),
    )


def record(path: Path, engine=None, arm_plan=None, workload=None, progress=None):
    """Record one arm into a new file and read it back."""
    engine, workload = engine or FakeEngine(), workload or chat()
    with new_trace(path, workload) as writer:
        execute_arm(engine, arm_plan or plan(), workload.start(engine), writer, progress)
    return open_trace(path)


def run_fixed(path: Path, engine, arm_plan, prompts, outputs=None, forced=False):
    """Run given prompts as one arm into a new file and read it back."""
    with new_trace(path) as writer:
        execute_arm(engine, arm_plan, FixedSource(prompts, outputs, forced), writer)
    return open_trace(path)


def prompts(trace, arm=0):
    return [tuple(trace.prompt_ids(arm, r.index).tolist()) for r in trace.requests(arm)]


def outputs(trace, arm=0):
    return [tuple(trace.path(arm, r.index).token_ids.tolist()) for r in trace.requests(arm)]


def cached(trace, arm=0):
    return [r.exposure.cached_tokens for r in trace.requests(arm)]


def expected(trace, arm=0):
    return [r.exposure.expected_tokens for r in trace.requests(arm)]


def timeless(request: Request) -> Request:
    """A request without what differs from run to run by nature, and from file to file by storage."""
    return replace(request, timing=Timing(), prompt=None)


def assert_same_arm(first: TraceReader, second: TraceReader, arm: int = 0) -> None:
    """Same requests, prompts, tokens and numbers; times apart."""
    ours, theirs = first.requests(arm), second.requests(arm)
    assert [timeless(r) for r in ours] == [timeless(r) for r in theirs]
    assert prompts(first, arm) == prompts(second, arm)
    for index in range(len(ours)):
        a, b = first.path(arm, index), second.path(arm, index)
        for column in ("token_ids", "flags", "chosen_values", "log_sum_exp", "fingerprints"):
            np.testing.assert_array_equal(getattr(a, column), getattr(b, column))
        np.testing.assert_array_equal(
            first.alternatives(arm, index).values, second.alternatives(arm, index).values
        )


def committed(path: Path, arm: int = 0) -> CommittedArm:
    with TraceReader.open(path) as trace:
        return CommittedArm.read(trace, trace.arms[arm])


class StopAt:
    """Progress that presses Ctrl-C when a request is about to be served."""

    def __init__(self, index):
        self._index = index
        self.notes = []

    def arm_started(self, label, planned): ...

    def request_started(self, index, prompt_tokens):
        if index == self._index:
            raise KeyboardInterrupt

    def prompt_progress(self, done, total): ...

    def request_ended(self, index, cached_tokens, output_tokens): ...

    def arm_ended(self, label, sentence): ...

    def note(self, sentence):
        self.notes.append(sentence)
