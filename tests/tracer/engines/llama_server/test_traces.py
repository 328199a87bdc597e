"""Whole arms on the real server: recorded, replayed, and judged."""

import os
import signal
from pathlib import Path

import pytest

from replay.arm_schedule import ReplayOptions
from replay.divergence import analyse
from replay.replay_run import replay_on
from replay.verdicts import ArmStatus, ExposureVerdict, Verdict
from tests.tracer.engines.conftest import OpenServer
from tests.tracer.engines.llama_server.prompts import QUESTIONS, SENTENCE
from tracer.engines.llama_server.engine import LlamaServerEngine
from tracer.episode import CacheState, RunPlace, Sampling, WorkloadSpec
from tracer.progress import Silent
from tracer.recording import RecordingSettings, record_episode
from tracer.tracefile import TraceReader
from tracer.workloads.chat import Chat

pytestmark = [pytest.mark.llama_server, pytest.mark.slow]

STATES = (CacheState.COLD, CacheState.WARM, CacheState.SNAPSHOT, CacheState.NO_PROMPT_CACHE)


def record(
    engine: LlamaServerEngine, path: Path, state: CacheState = CacheState.WARM, new_tokens: int = 24
) -> None:
    messages = [{"role": "system", "content": SENTENCE * 6}]
    messages += [
        {"role": "user", "content": question} for question in (QUESTIONS[1], QUESTIONS[5], QUESTIONS[0])
    ]
    record_episode(
        engine,
        Chat(WorkloadSpec(name="chat", params={"id": "talk", "messages": messages})),
        path,
        RecordingSettings(state=state, sampling=Sampling(max_new_tokens=new_tokens)),
        RunPlace(run_id="recorded"),
        Silent(),
    )


def test_s1_and_s2_as_arms_with_their_verdicts(open_server: OpenServer, tmp_path: Path) -> None:
    engine, path = open_server(), tmp_path / "talk.msgpack"
    record(engine, path)
    replay_on(engine, path, ReplayOptions(states=STATES))
    with TraceReader.open(path) as trace:
        analysis = analyse(trace)
        labels = {arm.label: arm.index for arm in trace.arms}
        warm = next(c for c in analysis.comparisons if c.arm == labels["warm"])
        restored = analyse(trace, baseline=labels["recording"])
        cached = [request.exposure.cached_tokens for request in trace.requests(trace.arms[labels["warm"]])]
        states = [request.exposure for request in trace.requests(trace.arms[labels["snapshot"]])]
    for assessment in analysis.assessments:
        assert assessment.status is ArmStatus.VERIFIED, assessment.reason
        assert set(assessment.exposures) == {ExposureVerdict.AS_EXPECTED}
    for control in analysis.controls:
        assert {verdict.verdict for verdict in control.requests} == {Verdict.IDENTICAL}
    reused = [verdict for verdict, tokens in zip(warm.requests, cached, strict=True) if tokens]
    assert len(reused) >= 2
    for verdict in reused:
        assert verdict.verdict in (Verdict.DRIFTED, Verdict.FLIPPED)
        assert verdict.attributable is True
    snapshot = next(c for c in restored.comparisons if c.arm == labels["snapshot"])
    assert {verdict.verdict for verdict in snapshot.requests} == {Verdict.IDENTICAL}
    assert [exposure.restored_tokens for exposure in states] == cached


def test_a_server_that_dies_ends_the_arm_and_keeps_the_rest(open_server: OpenServer, tmp_path: Path) -> None:
    engine, path = open_server(), tmp_path / "talk.msgpack"
    served = []
    generate = engine.generate

    def dies_at_the_third(call):  # type: ignore[no-untyped-def]
        served.append(call)
        if len(served) == 3:
            os.kill(engine._backend._server._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        return generate(call)

    engine.generate = dies_at_the_third  # type: ignore[method-assign]
    record(engine, path, new_tokens=4)
    with TraceReader.open(path) as trace:
        end, requests = trace.end(trace.arms[0]), trace.requests(trace.arms[0])
        first = trace.path(trace.arms[0], 0)
    assert end is not None
    assert not end.completed
    assert end.reason is not None
    assert "died while serving request 2" in end.reason
    assert "SIGKILL" in end.reason
    assert [request.error is None for request in requests] == [True, True, False]
    assert len(first) > 0
    engine.generate = generate  # type: ignore[method-assign]
    record(engine, tmp_path / "again.msgpack", new_tokens=4)
    with TraceReader.open(tmp_path / "again.msgpack") as trace:
        end = trace.end(trace.arms[0])
    assert end is not None
    assert end.completed
