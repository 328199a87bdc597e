"""An arm that was stopped and taken up again equals one that was not."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.tracer.arm_runs import (
    FixedSource,
    StopAt,
    assert_same_arm,
    chat,
    committed,
    new_trace,
    open_trace,
    plan,
    prompts,
    record,
)
from tracer.arm_loop import execute_arm
from tracer.arm_plan import ArmPlan, StartFrom
from tracer.engines.fake import FakeEngine, FakeScript
from tracer.episode import CacheState, Priming, RunPlace, Sampling, Way
from tracer.errors import UsageError
from tracer.progress import Silent
from tracer.recording import RecordingSettings, record_episode, resume_recording
from tracer.state_shelf import MemoryShelf
from tracer.tracefile import TraceWriter
from tracer.workloads.registry import family

ARMS = [
    (CacheState.COLD, Priming.NONE),
    (CacheState.WARM, Priming.OWN),
    (CacheState.WARM, Priming.SELF),
    (CacheState.WARM, Priming.PROMPT_ONLY),
    (CacheState.NO_PROMPT_CACHE, Priming.OWN),
]


def take_up(path, engine=None, workload=None, **changes):
    arm = committed(path)
    engine, workload = engine or FakeEngine(), workload or chat()
    with TraceWriter.append(path) as writer:
        end = execute_arm(
            engine, ArmPlan.of(arm.arm, **changes), workload.start(engine), writer, committed=arm
        )
    return open_trace(path), end


def stopped(path, at, arm_plan, workload=None):
    with pytest.raises(KeyboardInterrupt):
        record(path, arm_plan=arm_plan, workload=workload, progress=StopAt(at))


@pytest.mark.parametrize(("state", "priming"), ARMS)
@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("history", ["ids", "messages"])
def test_a_resumed_arm_equals_an_undisturbed_one(tmp_path, state, priming, at, history):
    workload, arm_plan = chat(history=history), plan(state, priming=priming)
    whole = record(tmp_path / "whole.msgpack", arm_plan=arm_plan, workload=workload)
    stopped(tmp_path / "cut.msgpack", at, arm_plan, workload)
    resumed, end = take_up(tmp_path / "cut.msgpack", workload=workload)
    assert_same_arm(whole, resumed)
    assert end.completed
    assert end.metrics["resumed_at"] == at
    assert end.metrics["prompt_tokens"] == whole.end(0).metrics["prompt_tokens"]
    assert resumed.check() == ()


def test_a_resumed_snapshot_arm_restores_what_is_left(tmp_path):
    shelf = MemoryShelf()
    warm = record(tmp_path / "w.msgpack", arm_plan=plan(keep_states=shelf))
    snapshot = plan(CacheState.SNAPSHOT, way=Way.FIXED, states_met=shelf, reference_arm=0)
    path = tmp_path / "s.msgpack"
    with new_trace(path) as writer, pytest.raises(KeyboardInterrupt):
        execute_arm(FakeEngine(), snapshot, FixedSource(prompts(warm)), writer, StopAt(2))
    arm = committed(path)
    with TraceWriter.append(path) as writer:
        again = ArmPlan.of(arm.arm, states_met=shelf)
        execute_arm(FakeEngine(), again, FixedSource(prompts(warm)), writer, committed=arm)
    resumed = open_trace(path)
    assert [r.exposure.cached_tokens for r in resumed.requests(0)] == [
        r.exposure.cached_tokens for r in warm.requests(0)
    ]


def test_another_engine_may_not_take_an_arm_up(tmp_path):
    stopped(tmp_path / "t.msgpack", 2, plan())
    with pytest.raises(UsageError, match="model_hash"):
        take_up(tmp_path / "t.msgpack", FakeEngine(FakeScript(seed=3)))


class SecretlyOther(FakeEngine):
    """Calls itself the engine of the recording and is another one."""

    def __init__(self, script):
        super().__init__(script)
        self._pretended = FakeEngine()

    def set_layers(self, **layers):
        super().set_layers(**layers)
        self._pretended.set_layers(**layers)

    @property
    def info(self):
        return self._pretended.info


@pytest.mark.parametrize(
    ("script", "word"),
    [(FakeScript(seed=3), "other tokens"), (FakeScript(disturbance=0.0201), "other numbers")],
)
def test_an_engine_that_answers_otherwise_may_not_either(tmp_path, script, word):
    stopped(tmp_path / "t.msgpack", 2, plan())
    with pytest.raises(UsageError, match=word):
        take_up(tmp_path / "t.msgpack", SecretlyOther(script))


def test_a_task_that_asks_otherwise_may_not_be_taken_up(tmp_path):
    stopped(tmp_path / "t.msgpack", 2, plan(CacheState.COLD))
    with pytest.raises(UsageError, match="another prompt"):
        take_up(tmp_path / "t.msgpack", workload=chat(("Something else?", "And this?", "So?", "Yes.")))


def test_a_pass_on_caches_left_by_another_may_not_be_taken_up(tmp_path):
    stopped(tmp_path / "t.msgpack", 2, plan(start_from=StartFrom.AS_LEFT, pass_index=1))
    with pytest.raises(UsageError, match="passes"):
        take_up(tmp_path / "t.msgpack")


def test_a_complete_arm_has_nothing_to_resume(tmp_path):
    record(tmp_path / "t.msgpack")
    with pytest.raises(UsageError, match="nothing to resume"):
        take_up(tmp_path / "t.msgpack")


# ---- killed outright

SETTINGS = RecordingSettings(sampling=Sampling(max_new_tokens=12))
SLOW = FakeScript(token_seconds=0.0015)


class Reports(Silent):
    """Tells the parent about each request that is in the file."""

    def __init__(self, pipe):
        self._pipe = pipe

    def request_ended(self, index, cached_tokens, output_tokens):
        os.write(self._pipe, b".")


def office():
    return next(iter(family("office").episodes(turns=3, agent="model")))


def record_slowly(path: Path, pipe: int) -> None:
    record_episode(FakeEngine(SLOW), office(), path, SETTINGS, RunPlace(run_id="kill"), Reports(pipe))


def killed_after(path: Path, seconds: float) -> int:
    """Kill a recording after some seconds; how many requests it had reported as written."""
    receive, send = os.pipe()
    child = multiprocessing.get_context("fork").Process(target=record_slowly, args=(path, send))
    child.start()
    os.close(send)
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    child.close()
    with os.fdopen(receive, "rb") as reports:
        return len(reports.read())


def finish(path: Path) -> None:
    place = RunPlace(run_id="kill")
    if path.exists():
        resume_recording(FakeEngine(SLOW), path, SETTINGS, place, Silent())
    else:
        record_episode(FakeEngine(SLOW), office(), path, SETTINGS, place, Silent())


def kill_at_random_moments(tmp_path: Path, times: int) -> set[int]:
    whole_path = tmp_path / "whole.msgpack"
    clock = time.monotonic()
    record_episode(FakeEngine(SLOW), office(), whole_path, SETTINGS, RunPlace(run_id="kill"), Silent())
    lasts = time.monotonic() - clock
    whole = open_trace(whole_path)
    dice, kept = random.Random(20), set()
    for attempt in range(times):
        path = tmp_path / f"killed-{attempt}.msgpack"
        reported = killed_after(path, dice.uniform(0, lasts * 1.15))
        if path.exists():
            cut = open_trace(path)
            written = cut.requests(0) if cut.arms else ()
            assert len(written) in (reported, reported + 1)
            for request in written:
                assert len(cut.prompt_ids(0, request.index)) == request.prompt_tokens
                assert len(cut.path(0, request.index)) == request.output_tokens
            assert all(loss.at_end for loss in cut.check())
            kept.add(len(written))
        finish(path)
        resumed = open_trace(path)
        assert resumed.check() == ()
        assert resumed.end(0).completed
        assert_same_arm(whole, resumed)
        path.unlink()
    return kept


def test_killed_at_20_moments_every_written_request_is_there_and_resume_finishes(tmp_path):
    assert len(kill_at_random_moments(tmp_path, 20)) > 1


@pytest.mark.slow
def test_killed_at_200_moments(tmp_path):
    assert len(kill_at_random_moments(tmp_path, 200)) >= 3


@pytest.mark.parametrize("cut", [1, 7, 100, 1000])
def test_a_torn_tail_is_cut_off_before_the_arm_goes_on(tmp_path, cut):
    whole = record(tmp_path / "whole.msgpack")
    path = tmp_path / "cut.msgpack"
    stopped(path, 3, plan())
    path.write_bytes(path.read_bytes()[:-cut])
    resumed, _ = take_up(path)
    assert_same_arm(whole, resumed)
    assert resumed.check() == ()
