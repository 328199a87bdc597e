"""The arm loop on ``FakeEngine``: states, primings, ways, faults."""

import numpy as np
import pytest

from tests.tracer.arm_runs import (
    FixedSource,
    StopAt,
    cached,
    chat,
    expected,
    new_trace,
    open_trace,
    outputs,
    plan,
    prompts,
    record,
    run_fixed,
)
from tracer.arm_loop import execute_arm, serve_again
from tracer.arm_plan import StartFrom
from tracer.engines.fake import FakeEngine, FakeFault, FakeScript
from tracer.episode import CacheState, Priming, StopReason, Way
from tracer.errors import EngineError, StateRefused, UsageError
from tracer.exposure import ExposureVerdict, exposure_verdict, state_holds
from tracer.resume import CommittedArm
from tracer.state_shelf import MemoryShelf


def verdicts(trace, arm=0):
    state = trace.arms[arm].state
    return [exposure_verdict(r.exposure, state) for r in trace.requests(arm)]


def test_cold_serves_nothing_from_a_cache(tmp_path):
    trace = record(tmp_path / "t.msgpack", arm_plan=plan(CacheState.COLD))
    assert cached(trace) == expected(trace) == [0, 0, 0, 0]
    assert trace.end(0).completed


@pytest.mark.parametrize("state", [CacheState.WARM, CacheState.NO_PROMPT_CACHE])
def test_warm_reuses_all_of_a_growing_prompt(tmp_path, state):
    trace = record(tmp_path / "t.msgpack", arm_plan=plan(state))
    held = [
        len(prompt) + len(output) - 1 for prompt, output in zip(prompts(trace), outputs(trace), strict=True)
    ]
    assert cached(trace) == expected(trace) == [0, *held[:-1]]
    assert verdicts(trace) == [ExposureVerdict.AS_EXPECTED] * 4
    assert [r.prefix_break for r in trace.requests(0)] == [None] * 4


def test_blocks_floor_what_is_expected(tmp_path):
    trace = record(tmp_path / "t.msgpack", engine=FakeEngine(FakeScript(block_tokens=16)))
    assert cached(trace) == expected(trace)
    assert all(count % 16 == 0 for count in cached(trace))
    assert max(cached(trace)) > 0


def test_a_prompt_shorter_than_a_block_expects_nothing(tmp_path):
    engine = FakeEngine(FakeScript(block_tokens=256))
    trace = record(tmp_path / "t.msgpack", engine=engine, workload=chat(("Hi.", "Yes?")))
    assert cached(trace) == expected(trace) == [0, 0]


def test_self_priming_leaves_one_prompt_token_to_compute(tmp_path):
    trace = record(tmp_path / "t.msgpack", arm_plan=plan(priming=Priming.SELF))
    assert cached(trace) == expected(trace) == [len(prompt) - 1 for prompt in prompts(trace)]


def test_snapshot_repeats_the_arm_whose_states_it_restores(tmp_path):
    shelf = MemoryShelf()
    warm = record(tmp_path / "w.msgpack", arm_plan=plan(keep_states=shelf))
    restored = plan(CacheState.SNAPSHOT, way=Way.FIXED, states_met=shelf, reference_arm=0)
    trace = run_fixed(tmp_path / "s.msgpack", FakeEngine(), restored, prompts(warm))
    assert cached(trace) == expected(trace) == cached(warm)
    assert [r.exposure.restored_tokens for r in trace.requests(0)] == cached(warm)
    for index in range(4):
        np.testing.assert_array_equal(trace.path(0, index).fingerprints, warm.path(0, index).fingerprints)


def test_cold_and_warm_numbers_differ_where_the_cache_was_used(tmp_path):
    warm = record(tmp_path / "w.msgpack")
    cold = run_fixed(
        tmp_path / "c.msgpack", FakeEngine(), plan(CacheState.COLD, way=Way.FIXED), prompts(warm)
    )
    same = [
        np.array_equal(cold.path(0, i).fingerprints[0], warm.path(0, i).fingerprints[0]) for i in range(4)
    ]
    assert same == [True, False, False, False]


def test_three_primings_meet_three_histories(tmp_path):
    recording = record(tmp_path / "r.msgpack")
    asked, answered = prompts(recording), outputs(recording)
    other = FakeScript(seed=7)  # a model that answers otherwise, so own history is not the recorded one
    seen = {}
    for priming in (Priming.OWN, Priming.LOCKSTEP, Priming.PROMPT_ONLY):
        arm = plan(priming=priming, way=Way.FIXED, source_arm=0)
        trace = run_fixed(tmp_path / f"{priming}.msgpack", FakeEngine(other), arm, asked, answered)
        assert outputs(trace)[0] != answered[0]
        assert cached(trace) == expected(trace)
        seen[priming] = cached(trace)
        assert trace.arms[0].priming is priming
    assert seen[Priming.LOCKSTEP] == cached(recording)
    assert seen[Priming.PROMPT_ONLY] == [0, *[len(prompt) for prompt in asked[:-1]]]
    assert all(own <= lock for own, lock in zip(seen[Priming.OWN], seen[Priming.LOCKSTEP], strict=True))
    assert seen[Priming.OWN] != seen[Priming.LOCKSTEP]


def test_lockstep_repeats_an_unflipped_arm_bit_by_bit(tmp_path):
    recording = record(tmp_path / "r.msgpack")
    arm = plan(priming=Priming.LOCKSTEP, way=Way.FIXED, source_arm=0)
    trace = run_fixed(tmp_path / "l.msgpack", FakeEngine(), arm, prompts(recording), outputs(recording))
    for index in range(4):
        np.testing.assert_array_equal(
            trace.path(0, index).fingerprints, recording.path(0, index).fingerprints
        )


def test_forced_decodes_the_recorded_output(tmp_path):
    recording = record(tmp_path / "r.msgpack")
    arm = plan(CacheState.COLD, way=Way.FORCED, source_arm=0)
    engine = FakeEngine(FakeScript(seed=7))
    trace = run_fixed(
        tmp_path / "f.msgpack", engine, arm, prompts(recording), outputs(recording), forced=True
    )
    assert outputs(trace) == outputs(recording)
    assert trace.arms[0].way is Way.FORCED


def a_and_b():
    engine = FakeEngine()
    a = tuple(engine.tokenize("You are a careful assistant. Explain why the sky is blue."))
    b = tuple(engine.tokenize("The following is a totally different text about ships. " * 3))
    return a, b


@pytest.mark.parametrize(("state", "again"), [(CacheState.WARM, True), (CacheState.NO_PROMPT_CACHE, False)])
def test_the_second_layer_brings_back_what_was_overwritten(tmp_path, state, again):
    a, b = a_and_b()
    trace = run_fixed(tmp_path / "t.msgpack", FakeEngine(), plan(state), [a, a, b, a, b])
    back = [len(a) - 1, len(b) - 1] if again else [0, 0]
    assert cached(trace) == expected(trace) == [0, len(a) - 1, 0, *back]
    brought = [r.exposure.prompt_cache_tokens for r in trace.requests(0)]
    assert brought[3:] == back


class ServerLike:
    """An engine whose second layer acts inside the request only, as a server's does."""

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        if name == "bring_back":
            raise AttributeError(name)
        return getattr(self._engine, name)


def test_a_second_layer_that_acts_inside_the_request_shows_as_more(tmp_path):
    a, b = a_and_b()
    trace = run_fixed(tmp_path / "t.msgpack", ServerLike(FakeEngine()), plan(), [a, b, a])
    assert cached(trace) == [0, 0, len(a) - 1]
    assert verdicts(trace)[2] is ExposureVerdict.MORE
    assert state_holds(ExposureVerdict.MORE, CacheState.WARM)
    assert not state_holds(ExposureVerdict.MORE, CacheState.NO_PROMPT_CACHE)


def test_passes_do_not_empty_the_caches(tmp_path):
    engine, workload = FakeEngine(), chat()
    with new_trace(tmp_path / "t.msgpack") as writer:
        execute_arm(engine, plan(), workload.start(engine), writer)
        later = plan(start_from=StartFrom.AS_LEFT, pass_index=1)
        execute_arm(engine, later, workload.start(engine), writer)
    trace = open_trace(tmp_path / "t.msgpack")
    assert cached(trace, 0)[0] == 0
    assert cached(trace, 1)[0] > 0
    assert trace.arms[1].label == "recording@1"


def test_a_sentinel_overwrites_what_was_left(tmp_path):
    engine, workload = FakeEngine(), chat()
    sentinel = tuple(engine.tokenize("Something else altogether."))
    with new_trace(tmp_path / "t.msgpack") as writer:
        execute_arm(engine, plan(CacheState.NO_PROMPT_CACHE), workload.start(engine), writer)
        later = plan(CacheState.NO_PROMPT_CACHE, start_from=StartFrom.AS_LEFT, sentinel_ids=sentinel)
        execute_arm(engine, later, workload.start(engine), writer)
    trace = open_trace(tmp_path / "t.msgpack")
    assert cached(trace, 1)[0] == expected(trace, 1)[0] == 0
    assert len(trace.requests(1)) == 4


def faulty(*faults, **script):
    return FakeEngine(FakeScript(faults=tuple(faults), **script))


def test_a_failed_request_is_written_and_ends_the_arm(tmp_path):
    trace = record(tmp_path / "t.msgpack", engine=faulty(FakeFault(kind="error", request=2)))
    assert [r.error is None for r in trace.requests(0)] == [True, True, False]
    failed = trace.requests(0)[2]
    assert failed.stop is StopReason.ERROR
    assert failed.exposure.cached_tokens is None
    assert len(trace.prompt_ids(0, 2)) == failed.prompt_tokens
    end = trace.end(0)
    assert not end.completed
    assert "request 2" in end.reason
    assert trace.check() == ()


def test_a_dead_engine_names_the_request(tmp_path):
    trace = record(tmp_path / "t.msgpack", engine=faulty(FakeFault(kind="dies", request=1, position=3)))
    assert trace.requests(0)[1].error.kind == "EngineDied"
    assert "died while serving request 1" in trace.end(0).reason


def test_a_state_that_cannot_be_restored_fails_that_request(tmp_path):
    trace = record(tmp_path / "w.msgpack")
    arm = plan(CacheState.SNAPSHOT, way=Way.FIXED, states_met=MemoryShelf())
    snapshot = run_fixed(tmp_path / "s.msgpack", FakeEngine(), arm, prompts(trace))
    assert snapshot.requests(0)[0].error.kind == "StateRefused"
    assert not snapshot.end(0).completed


@pytest.mark.parametrize(
    ("fault", "state", "verdict", "holds"),
    [
        (FakeFault(kind="lies", by=-5, request=2), CacheState.WARM, ExposureVerdict.SHORT, False),
        (FakeFault(kind="lies", by=5, request=2), CacheState.NO_PROMPT_CACHE, ExposureVerdict.MORE, False),
        (FakeFault(kind="leaks", request=2), CacheState.COLD, ExposureVerdict.MORE, False),
        (FakeFault(kind="uncounted", request=2), CacheState.WARM, ExposureVerdict.UNKNOWN, False),
    ],
)
def test_a_state_that_is_not_as_claimed_is_seen(tmp_path, fault, state, verdict, holds):
    trace = record(tmp_path / "t.msgpack", engine=faulty(fault), arm_plan=plan(state))
    assert verdicts(trace)[2] is verdict
    assert state_holds(verdicts(trace)[2], state) is holds
    assert verdicts(trace)[1] is ExposureVerdict.AS_EXPECTED


@pytest.mark.parametrize(
    ("without", "changes", "word"),
    [
        (("snapshot",), {"state": CacheState.SNAPSHOT}, "snapshot"),
        (("forced_decode",), {"priming": Priming.LOCKSTEP}, "lockstep"),
        (("forced_decode",), {"priming": Priming.PROMPT_ONLY}, "prompt-only"),
        (("forced_decode",), {"way": Way.FORCED}, "forced"),
        ((), {"state": CacheState.COLD, "priming": Priming.OWN}, "cold"),
        ((), {"state": CacheState.WARM, "priming": Priming.RESTORED}, "restored"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_before_anything_is_written(tmp_path, without, changes, word):
    engine, workload = FakeEngine(FakeScript(without=without)), chat()
    with new_trace(tmp_path / "t.msgpack") as writer:
        with pytest.raises(StateRefused, match=word):
            execute_arm(engine, plan(**changes), workload.start(engine), writer)
        assert writer.arms == ()


def test_a_workload_that_fails_does_not_lose_the_answer(tmp_path):
    class Failing(FixedSource):
        def digest(self, answer):
            raise EngineError("the tool worker is gone.")

    engine = FakeEngine()
    with new_trace(tmp_path / "t.msgpack") as writer:
        end = execute_arm(engine, plan(), Failing([engine.tokenize("Hello there.")]), writer)
    trace = open_trace(tmp_path / "t.msgpack")
    assert trace.requests(0)[0].output_tokens == len(trace.path(0, 0)) > 0
    assert end.reason == "stopped at request 0: the tool worker is gone."


def test_ctrl_c_leaves_a_readable_incomplete_arm(tmp_path):
    stop = StopAt(2)
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path / "t.msgpack", progress=stop)
    trace = open_trace(tmp_path / "t.msgpack")
    assert len(trace.requests(0)) == 2
    assert trace.end(0) is None
    assert "incomplete" in stop.notes[-1]


def test_totals_of_an_arm(tmp_path):
    trace = record(tmp_path / "t.msgpack")
    metrics = trace.end(0).metrics
    assert metrics["prompt_tokens"] == sum(map(len, prompts(trace)))
    assert metrics["cached_tokens"] == sum(cached(trace))
    unseen = record(tmp_path / "u.msgpack", engine=faulty(FakeFault(kind="uncounted")))
    assert "cached_tokens" not in unseen.end(0).metrics


def test_serving_again_fills_the_shelf_and_checks_the_record(tmp_path):
    trace = record(tmp_path / "r.msgpack")
    arm = CommittedArm.read(trace, trace.arms[0])
    shelf, again = MemoryShelf(), FixedSource(prompts(trace), outputs(trace))
    serve_again(FakeEngine(), plan(way=Way.FIXED, priming=Priming.LOCKSTEP, keep_states=shelf), again, arm)
    assert len(shelf) == 4
    assert [len(shelf.get(i).token_ids) if shelf.get(i) else 0 for i in range(4)] == cached(trace)
    other = FakeEngine(FakeScript(disturbance=0.03))
    with pytest.raises(UsageError, match="served again"):
        serve_again(other, plan(way=Way.FIXED), FixedSource(prompts(trace)), arm)
